"""`Engine`: hooks on an unmodified transformers model, and their lifecycle. Arithmetic is in `passes.py`, `gather.py`.

One `Engine` sits on one model. Everything that it hangs on the model is taken off again by `detach`, which is safe to
call in any state. Between two forward passes it keeps nothing but what the last prefill kept: what decoding needs is in
the cache. What belongs to one forward pass is kept by thread, so that one pruned model serves many threads.
"""

import inspect
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, ref

import torch
from torch import Tensor, nn

from vispco.core.errors import PrunerStateError, UnsupportedModelError
from vispco.engine import per_thread
from vispco.engine.arguments import ArgumentCutter
from vispco.engine.attention import (
    FLASH,
    Attended,
    AttentionCall,
    AttentionTap,
    ProbedCall,
    check_flash_window,
    implementation_of,
)
from vispco.engine.cache import PrunedLayer, check_cache
from vispco.engine.call_state import CallState, EngineOptions
from vispco.engine.checkpointing import CheckpointedPasses, check_not_checkpointing
from vispco.engine.compensation import Compensation, check_compensation_served
from vispco.engine.dropping import DropPass
from vispco.engine.forward import ANSWERS, VISUAL, read_positions
from vispco.engine.hooks import Hook, engine_on
from vispco.engine.layer_map import LayerMap
from vispco.engine.masking import MaskPass
from vispco.engine.model_checks import check_model
from vispco.engine.passes import Arguments, PruningPass
from vispco.engine.plan import Choices, Planner, TokenPlan, check_masking, check_plan
from vispco.engine.safety import row_check
from vispco.engine.tower_cut import TowerCut, TowerSetting
from vispco.engine.vision import VisionTap, interpolate_positions, vision_record
from vispco.engine.wrappers import install_detours, unwrap
from vispco.families import family_of
from vispco.scorers.chain import Chain
from vispco.scorers.mixture import chains_of


class Engine:
    """Prunes the visual tokens of one model while it is attached."""

    def __init__(
        self,
        model: nn.Module,
        chain: Chain,
        planner: Planner,
        options: EngineOptions,
        *,
        owner: object,
    ) -> None:
        self.model: nn.Module = unwrap(model)
        self.chain, self.planner, self.owner = chain.for_model(self.model), planner, owner
        self.options = options
        self.family = family_of(self.model)
        self.family.check_served(self.model)
        self.base, self.text = self.family.base(self.model), self.family.text_model(self.model)
        self.layers = self.family.layers(self.model)
        self.map = LayerMap.of(self.family, self.model)
        self.state = CallState()
        self._given = ref(model)  # a compiled wrapper is not kept alive by what runs inside of it
        self._checkpointed = CheckpointedPasses(self.text, self._is_back)
        self._undo = ExitStack()
        self._vision: VisionTap | None = None
        self._tower: TowerCut | None = None
        self._signature = inspect.signature(self.base.forward)
        self._flash = False
        self._plans: WeakKeyDictionary[TokenPlan, tuple[tuple[int, ...], Choices]] = WeakKeyDictionary()
        check_model(self.model, self.map, self.chain, self.options, self.family)

    def attach(self) -> None:
        if engine_on(self.base) is not None:
            raise PrunerStateError(
                f"A pruner is on this {type(self.model).__name__} already. Remove it first (pruner.remove(model), or "
                "leave its `with` block); two pruners on one model would both drop tokens."
            )
        undo = self._undo

        def before(module: nn.Module, hook: Callable[..., Any]) -> None:
            undo.callback(module.register_forward_pre_hook(Hook(self, hook), with_kwargs=True).remove)

        def after(module: nn.Module, hook: Callable[..., Any]) -> None:
            undo.callback(module.register_forward_hook(Hook(self, hook)).remove)

        try:
            masks, flash = self.options.mode == "mask", implementation_of(self.text) in FLASH
            self._flash = flash and not masks  # masks are given row by row
            if any(each.compensate for each in chains_of(self.chain)):
                check_compensation_served(self.model, self.map, flat_masks=self._flash)
            if self.chain.taps_attention or masks:
                dense_for = (self.text, self.base) if masks and flash else ()
                self._install(AttentionTap(self.map.attentions, self._attend, dense_for))
            if self.model is not self.base:
                before(self.model, self._on_model)
            before(self.base, self._on_base)
            before(self.text, self._on_text)
            for index, layer in enumerate(self.layers):
                before(layer, partial(self._on_layer, index))
                if self.chain.site_at(index + 1) == "mid":
                    ffn = self.family.ffn(layer)
                    before(ffn, partial(self._on_ffn, index))
                    after(ffn, self._after_ffn)
            after(self.text, self._after_text)
            if self.options.pixels != 1.0:
                for handle in interpolate_positions(self.family, self.model):
                    undo.callback(handle.remove)
            if self.chain.needs_vision:
                self._vision = VisionTap(self.family, self.model, self.chain.needs_vision)
                self._install(self._vision)
            if self.options.tower is not None:
                setting = TowerSetting(self.chain, self.options.tower)
                self._tower = TowerCut(self.family, self.model, setting, masks=masks)
                self._install(self._tower)
            install_detours(self._given(), self.state, undo)
            undo.callback(per_thread.remove, self.base, per_thread.install(self.base, self.family.call_attributes))
            undo.callback(self._checkpointed.refuse_from_now_on)
        except BaseException:
            self.detach()
            raise

    def detach(self) -> None:
        self._undo.close()
        self._vision = self._tower = None
        self.state = CallState()

    def _install(self, tap: AttentionTap | VisionTap | TowerCut) -> None:
        self._undo.callback(tap.remove)
        tap.install()

    def _is_back(self) -> bool:
        """Whether the pruner (owner) of this engine is on the model, perhaps once more."""
        engine = engine_on(self.base)
        return engine is not None and engine.owner is self.owner

    def _attend(self, index: int, call: AttentionCall) -> Attended:
        if self.state.probing:
            raise ProbedCall(call)
        current, check = self.state.current, self.state.check
        if not isinstance(current, PruningPass):
            return call.run()
        attended = current.attend(index, call)
        if check is not None and (self.options.mode == "mask" or current.choices.read[index]):
            masked = isinstance(current, MaskPass) and current.mask is not None
            with torch.no_grad():  # a pass that is run again must leave the same graph, though it is checked once
                check.see(index, call, call.run() if masked else attended)
        return attended

    def _probe(self, index: int, hidden: Tensor, arguments: Arguments) -> AttentionCall:
        """The attention call that a layer would make on these states; nothing behind it runs, and no hook of the layer."""
        if index not in self.map.attentions:
            raise UnsupportedModelError(
                f"Layer {index} of this model has no attention, so a scorer cannot read what would enter it. Let tokens leave "
                "before another layer, or use a scorer that reads none there, such as 'v2drop'."
            )
        self.state.probing = True
        try:
            self.layers[index].forward(hidden, **arguments)
        except ProbedCall as found:
            return found.call
        finally:
            self.state.probing = False
        raise UnsupportedModelError(
            f"Layer {index} has not called transformers' attention function, so its attention cannot be read. Use scorers "
            "that need no attention, such as 'random', at this depth."
        )

    def _on_model(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        given = kwargs if not args else inspect.signature(self.model.forward).bind_partial(*args, **kwargs).arguments
        self.state.labels = given.get("labels")
        self.state.logits_to_keep = given.get("logits_to_keep", 0)

    def _on_base(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        state = self.state
        state.layout = state.current = state.check = None
        state.written = state.untouched = 0
        state.entered = False
        check_not_checkpointing(self.layers)
        inputs = kwargs
        if args:
            inputs = dict(self._signature.bind_partial(*args, **kwargs).arguments)
            inputs |= inputs.pop("kwargs", {})
        cache = inputs.get("past_key_values")
        check_cache(cache)
        past = 0 if cache is None else int(cache.get_seq_length())
        if self.options.mode == "mask" and past:
            raise UnsupportedModelError(
                "Masking serves one forward pass, not a cache that grows. Use mode='drop' for generate()."
            )
        labels = state.labels if state.labels is not None else inputs.get("labels")
        answers = ANSWERS.get() if labels is None else labels != -100
        asked = state.logits_to_keep if self.model is not self.base else inputs.get("logits_to_keep", 0)
        state.labels, state.logits_to_keep = None, 0
        visual = VISUAL.get()
        if visual is not None or self.family.has_pictures(inputs) or self.family.has_merged_pictures(inputs):
            read = read_positions(answers, asked, self.family.given(inputs).shape[1])
            if answers is None and state.prompt is not None and not past and inputs.get("input_ids") is not None:
                # what a generation has written already, in passes that begin from the prompt again: bool [B, N]
                ids = inputs["input_ids"]
                state.written = max(0, ids.shape[1] - state.prompt)
                if state.written:
                    answers = (torch.arange(ids.shape[1], device=ids.device) >= state.prompt).expand(ids.shape[0], -1)
            pixels, given = self.options.pixels, {"answers": answers, "read": read, "visual": visual}
            state.layout = self.family.layout(self.model, inputs, **given, pixels=pixels)
            if pixels != 1.0:
                self.family.check_pixels(self.model, state.layout)
        else:
            self.family.check_without_pictures(self.model, inputs)
        state.entered = True
        for tap in (self._vision, self._tower):
            if tap is not None:
                tap.begin(inputs)

    def _on_text(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = self.state
        if not state.entered:
            raise PrunerStateError("The language model was called by itself; call the whole model while it is pruned.")
        cache = kwargs.get("past_key_values")
        state.past = 0 if cache is None else int(cache.get_seq_length())
        state.tracked = cache is not None and any(isinstance(layer, PrunedLayer) for layer in cache.layers)
        state.injected = None
        if self.options.mode == "drop" and state.layout is not None and state.layout.has_visual:
            state.injected = self.family.injections(kwargs)
            if state.injected is not None:
                kwargs = {**kwargs, **dict.fromkeys(self.family.injection_inputs)}
        embeddings = kwargs.get("inputs_embeds")
        if embeddings is None and args and args[0] is not None and args[0].is_floating_point():
            embeddings = args[0]
        if embeddings is not None:  # else the first layer is handed the first that there is
            self._begin(embeddings)
        return args, kwargs

    def _begin(self, embeddings: Tensor) -> None:
        """Start a pass with what enters the language model: [B, N, D]."""
        state = self.state
        masks = self.options.mode == "mask"
        layout, past, injected = state.layout, state.past, state.injected
        state.layout = state.injected = None
        state.entered = False
        if layout is None or not layout.has_visual:
            if not masks:
                batch, length = embeddings.shape[:2]
                sizes = (batch, length, past, embeddings.device, self._flash, embeddings.dtype)
                state.current = ArgumentCutter(self.map, *sizes)
            return
        self._checkpointed.note()
        if self._tower is not None:
            layout = self._tower.entering(layout)
            state.tower = (layout.passed, layout.spent)
        plan = self.planner(layout, embeddings)
        read = layout.num_read
        if any(read) and any(row[-1] < number for row, number in zip(plan.rows, read, strict=True)):
            plan = replace(plan, counts=torch.maximum(plan.counts, torch.tensor(read)[:, None]))
        known = self._plans.get(plan)
        if known is None or known[0] != layout.num_visual:  # a plan of pictures of the same sizes is checked once
            check_plan(plan, layout, self.map, self.chain)
            if masks:
                check_masking(plan, layout, self.map)
            known = (layout.num_visual, Choices.of(plan.rows, layout.num_visual, self.chain, self.map))
            self._plans[plan] = known
        compensation = Compensation.of(plan, self.chain, layout)
        if self._flash:
            check_flash_window(self.text.config, past + layout.length)
        self.family.check_length(self.model, past + layout.length)
        vision = None if self._vision is None else vision_record(self._vision.collect(), layout)
        own: dict[str, Any] = {"relaxation": self.options.relaxation} if masks else {"flat_masks": self._flash}
        current = (MaskPass if masks else DropPass)(
            layout,
            plan,
            self.chain,
            known[1],
            self.map,
            embeddings,
            past,
            vision,
            record=self.options.record,
            injections=injected,
            probe=self._probe,
            written=state.written,
            compensation=compensation,
            **own,
        )
        state.current, state.plan, state.sizes = current, plan, layout.prompt_sizes
        state.check = row_check(self.text)
        if isinstance(current, DropPass) and not state.tracked:
            state.untouched = current.untouched

    def _on_layer(self, index: int, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        state = self.state
        if index < state.untouched:
            return None
        if state.current is None:
            if index or not state.entered:
                return None
            self._begin(args[0] if args else kwargs["hidden_states"])
            if index < state.untouched:
                return None
        current = state.current
        if current is None:
            return None
        names = self.map.names[index]
        given = kwargs if len(args) == 1 else {**dict(zip(names, args, strict=False)), **kwargs}
        hidden = args[0] if len(args) == 1 else given.pop(names[0])
        if isinstance(current, ArgumentCutter):
            arguments = current.cut(index, given)
        else:
            hidden, arguments = current.enter_layer(index, hidden, given)
        if len(args) == 1:  # as most models call their layers
            return (hidden,), arguments
        arguments, by_position = {names[0]: hidden, **arguments}, names[: len(args)]
        rest = {name: value for name, value in arguments.items() if name not in by_position}
        return tuple(arguments[name] for name in by_position), rest

    def _on_ffn(self, index: int, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        current = self.state.current
        return ((current.enter_ffn(index, args[0]), *args[1:]), kwargs) if isinstance(current, PruningPass) else None

    def _after_ffn(self, _: nn.Module, __: Any, output: Tensor) -> Any:
        current = self.state.current
        return current.leave_ffn(output) if isinstance(current, PruningPass) else None

    def _after_text(self, _: nn.Module, __: Any, output: Any) -> Any:
        state = self.state
        current, state.current = state.current, None
        state.untouched = 0
        if not isinstance(current, PruningPass):
            return None
        if state.check is not None:
            check, state.check = state.check, None
            check.settle()
        state.counts, state.trace = current.plan.counts, current.trace
        if isinstance(output, tuple):
            return (current.leave(output[0]), *output[1:])
        output.last_hidden_state = current.leave(output.last_hidden_state)
        return output
