"""Hooks on an unmodified transformers model: the lifecycle of pruning, and nothing of its arithmetic.

One `Engine` sits on one model. Everything that it hangs on the model is taken off again by `detach`, which is safe to
call in any state. Between two forward passes it keeps nothing: what decoding needs is in the cache.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from vispco.engine.cache import cache_layer, check_cache
from vispco.engine.dropping import DropPass
from vispco.engine.masking import MaskPass, Relaxation, forget, masked_name
from vispco.engine.plan import Plan, Planner, check_plan
from vispco.engine.rows import check_readable
from vispco.errors import PrunerStateError, UnsupportedModelError
from vispco.families import Family, family_of
from vispco.layout import TokenLayout
from vispco.scorers.base import Scorer

Mode = Literal["drop", "mask"]
FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
SERVED = ("eager", "sdpa", *FLASH)
UNSERVED_GENERATION = {
    "prefill_chunk_size": "a picture cut into chunks cannot be ranked as a whole.",
    "cache_implementation": "pruning needs the cache that grows (DynamicCache), which is the default.",
}
_ATTACHED: WeakKeyDictionary[nn.Module, Engine] = WeakKeyDictionary()


class Engine:
    """Prunes the visual tokens of one model while it is attached."""

    def __init__(
        self,
        model: nn.Module,
        scorer: Scorer,
        planner: Planner,
        *,
        mode: Mode = "drop",
        relaxation: Relaxation | None = None,
        record: bool = False,
        family: Family | None = None,
    ) -> None:
        self.model, self.scorer, self.planner, self.mode, self.record = model, scorer, planner, mode, record
        self.relaxation = relaxation
        self.family = family or family_of(model)
        self.base, self.text = self.family.base(model), self.family.text_model(model)
        self.layers = self.family.layers(model)
        self.layout: TokenLayout | None = None
        self.plan: Plan | None = None
        self.trace: list[Tensor] | None = None
        self._answers: Tensor | None = None
        self._pass: DropPass | MaskPass | None = None
        self._past_keys: Tensor | None = None
        self._handles: list[Any] = []
        self._implementations: list[tuple[Any, str]] = []
        self._signature = inspect.signature(self.base.forward)
        self._check_model()

    def attach(self) -> None:
        if self.base in _ATTACHED:
            raise PrunerStateError(
                f"A pruner is on this {type(self.model).__name__} already. Remove it first (pruner.remove(model), or "
                "leave its `with` block); two pruners on one model would both drop tokens."
            )
        _ATTACHED[self.base] = self
        if self.mode == "mask":
            self._use_masked_attention()
        if self.model is not self.base:
            self._pre(self.model, self._on_model)
        self._pre(self.base, self._on_base)
        self._pre(self.text, self._on_text)
        for index, layer in enumerate(self.layers):
            self._hook_layer(index, layer)
        self._handles.append(self.text.register_forward_hook(self._after_text))

    def detach(self) -> None:
        for handle in self._handles:
            handle.remove()
        for config, name in self._implementations:
            config._attn_implementation = name  # noqa: SLF001 - transformers' only name for it
        for layer in self.layers:  # an exception may have left one behind
            forget(self.family.attention(layer))
        self._handles.clear()
        self._implementations.clear()
        self._pass = self._past_keys = self._answers = None
        if _ATTACHED.get(self.base) is self:
            del _ATTACHED[self.base]

    def _check_model(self) -> None:
        config: Any = self.text.config
        name = config._attn_implementation  # noqa: SLF001
        if name not in SERVED:
            raise UnsupportedModelError(
                f"The model runs attention as {name!r}; the engine serves {', '.join(SERVED)}. "
                "Call model.set_attn_implementation('sdpa') first."
            )
        generation: Any = getattr(self.model, "generation_config", None)
        for setting, why in UNSERVED_GENERATION.items():
            value = getattr(generation, setting, None)
            if value not in (None, "dynamic"):
                raise UnsupportedModelError(f"generation_config.{setting} is {value!r}: {why} Set it to None.")
        if self.scorer.needs_attention:
            for layer in self.layers:
                check_readable(self.family.attention(layer))
        if self.scorer.site == "mid":
            self.family.ffn(self.layers[0])

    def _hook_layer(self, index: int, layer: nn.Module) -> None:
        attention = self.family.attention(layer)

        def enter(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return self._on_layer(index, attention, args, kwargs)

        def attended(module: nn.Module, _: Any, kwargs: dict[str, Any], __: Any) -> None:
            if isinstance(self._pass, MaskPass):
                forget(module)
            if self._pass is not None:
                self._pass.after_attention(index, module, kwargs, self._past_keys)

        self._pre(layer, enter)
        if self.scorer.needs_attention or self.mode == "mask":
            self._handles.append(attention.register_forward_hook(attended, with_kwargs=True))
        if self.scorer.needs_attention:
            for name, key in (("q_proj", "query"), ("k_proj", "key")):
                projection: nn.Module = getattr(attention, name)
                self._handles.append(projection.register_forward_hook(self._capture(index, key)))
        if self.scorer.site == "mid" and self.mode == "drop":
            ffn = self.family.ffn(layer)
            self._handles.append(ffn.register_forward_pre_hook(self._enter_ffn))
            self._handles.append(ffn.register_forward_hook(self._leave_ffn))

    def _capture(self, index: int, key: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Tensor) -> None:
            if self._pass is not None and self._pass.wants_attention(index):
                self._pass.captured[key] = output

        return hook

    def _on_model(self, _: nn.Module, __: Any, kwargs: dict[str, Any]) -> None:
        labels = kwargs.get("labels")
        self._answers = None if labels is None else labels != -100

    def _on_base(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        inputs = dict(self._signature.bind_partial(*args, **kwargs).arguments)
        inputs |= inputs.pop("kwargs", {})
        cache = inputs.get("past_key_values")
        check_cache(cache)
        past = 0 if cache is None else int(cache.get_seq_length())
        if self.mode == "mask" and past:
            raise UnsupportedModelError(
                "Masking serves one forward pass, not a cache that goes on. Use mode='drop' for generate()."
            )
        self.layout = self.family.layout(self.model, inputs, answers=self._answers)
        self._answers = None

    def _on_text(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        layout, embeddings = self.layout, kwargs.get("inputs_embeds", args[0] if args else None)
        if layout is None or embeddings is None:
            raise PrunerStateError("The language model was called by itself; call the whole model while it is pruned.")
        cache = kwargs.get("past_key_values")
        past = 0 if cache is None else int(cache.get_seq_length())
        self.plan = self.planner(layout, embeddings) if layout.has_visual else None
        if self.plan is not None:
            check_plan(self.plan, layout, len(self.layers), first_full=self.scorer.needs_attention)
            self._check_windows(past + layout.length)
        arguments = (layout, self.plan, self.scorer, embeddings, past)
        if self.mode == "mask":
            self._pass = MaskPass(*arguments, record=self.record, relaxation=self.relaxation)
        else:
            self._pass = DropPass(*arguments, record=self.record)
            self._pass.flat_masks = self._implementation() in FLASH
        self.layout = None

    def _on_layer(self, index: int, attention: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        current = self._pass
        if current is None:
            return None
        hidden = args[0] if args else kwargs["hidden_states"]
        if isinstance(current, MaskPass):
            changed, kwargs = current.enter_layer(index, hidden, kwargs, attention)
        else:
            changed, kwargs = current.enter_layer(index, hidden, kwargs)
        self._past_keys = None
        cache = kwargs.get("past_key_values")
        if cache is not None and current.past and current.wants_attention(index):
            self._past_keys = cache_layer(cache, index).keys
        if args:
            return (changed, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": changed}

    def _enter_ffn(self, _: nn.Module, args: tuple[Any, ...]) -> Any:
        return (self._pass.enter_ffn(args[0]), *args[1:]) if isinstance(self._pass, DropPass) else None

    def _leave_ffn(self, _: nn.Module, __: Any, output: Tensor) -> Any:
        return self._pass.leave_ffn(output) if isinstance(self._pass, DropPass) else None

    def _after_text(self, _: nn.Module, __: Any, output: Any) -> Any:
        current, self._pass, self._past_keys = self._pass, None, None
        if current is None:
            return None
        if current.trace is not None:
            self.trace = current.trace
        if isinstance(current, DropPass) and current.stage is not None:
            if isinstance(output, tuple):
                return (current.leave(output[0]), *output[1:])
            output.last_hidden_state = current.leave(output.last_hidden_state)
        return output

    def _check_windows(self, length: int) -> None:
        """Flash attention counts a window in the tokens that it is given; after pruning those are not positions."""
        config: Any = self.text.config
        window = getattr(config, "sliding_window", None)
        types = getattr(config, "layer_types", None) or ()
        if window is None or "sliding_attention" not in types:
            return
        if self._implementation() in FLASH and length >= window:
            raise UnsupportedModelError(
                f"Flash attention cannot keep this model's sliding window of {window} exact once tokens are dropped "
                f"(the sequence has {length}). Call model.set_attn_implementation('sdpa')."
            )

    def _implementation(self) -> str:
        config: Any = self.text.config
        return str(config._attn_implementation)  # noqa: SLF001

    def _use_masked_attention(self) -> None:
        base: Any = self.base.config
        attention: Any = self.family.attention(self.layers[0])
        configs: dict[int, Any] = {id(c): c for c in (self.text.config, base.get_text_config(), attention.config)}
        for config in configs.values():
            own = config._attn_implementation  # noqa: SLF001
            self._implementations.append((config, own))
            config._attn_implementation = masked_name("sdpa" if own in FLASH else own)  # noqa: SLF001

    def _pre(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))
