"""Taps on the vision tower: features, keys and received attention by visual token, for scorers that read them.

A tap listens to the tower while it encodes pictures, wherever that happens: inside the model's forward pass, in `generate()`
before it, or in an evaluator that encodes each picture once and hands the result on with the features.
"""

import inspect
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from vispco.core.errors import UnsupportedModelError
from vispco.core.layout import TokenLayout
from vispco.engine.attention import Attended, AttentionCall, AttentionTap
from vispco.engine.rows import received_attention
from vispco.families import Family, family_of
from vispco.scorers.base import VisionNeeds
from vispco.scorers.context import Block, VisionRecord

RECORD = "vispco_vision"
"""The attribute of an encoder's output under which a record travels with the features of pictures encoded beforehand."""


KINDS = ("attention", "received", "keys")
VIDEOS = "pixel_values_videos"


@dataclass(frozen=True, eq=False)
class TokenVision:
    """A record of the tower, one row for each visual token, picture after picture; see `VisionRecord`.

    values: by name, [T, ...]: 'features', and for each kind and block such as 'attention.-1' or 'keys.0.37'.
    """

    values: Mapping[str, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(next(iter(self.values.values()), ()))

    def split(self, counts: Sequence[int]) -> list[dict[str, Tensor]]:
        """The named tensors of each sample, given how many visual tokens each has."""
        parts = {name: torch.split(values, list(counts)) for name, values in self.values.items()}
        return [{name: found[n] for name, found in parts.items()} for n in range(len(counts))]

    @classmethod
    def join(cls, parts: Sequence[Mapping[str, Tensor]]) -> Self:
        """From the named tensors of several samples, in order."""
        return cls({name: torch.cat([part[name] for part in parts]) for name in parts[0]})


class _Recorded(threading.local):
    call: dict[str, Any] | None = None
    parts: dict[str, list[Tensor]]
    found: TokenVision | None = None


class TowerHooks:
    """Hooks on a vision tower and on the attention of its blocks, from `install` to `remove`, or in a `with` block."""

    _tap: AttentionTap
    _handles: list[Any]

    def install(self) -> None:
        self._tap.install()

    def remove(self) -> None:
        """Safe in any state."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._tap.remove()

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


class VisionTap(TowerHooks):
    """Records what scorers read of a model's vision tower."""

    def __init__(self, family: Family, model: nn.Module, needs: VisionNeeds) -> None:
        self.family, self.model, self.needs = family, model, needs
        self.tower, self.projector = family.vision_tower(model), family.vision_projector(model)
        blocks = family.vision_attentions(model)
        self.wanted: dict[int, list[tuple[str, Block]]] = {}  # by block, what is read there
        for kind in KINDS:
            for block in getattr(needs, kind):
                number = _block_number(block, len(blocks), family.whole_picture_blocks(model))
                self.wanted.setdefault(number, []).append((kind, block))
        self._signature = inspect.signature(self.tower.forward)
        self._tap = AttentionTap({number: blocks[number] for number in self.wanted}, self._attend)
        self._handles = []
        self._local = _Recorded()

    def install(self) -> None:
        self._handles.append(self.tower.register_forward_pre_hook(self._begin, with_kwargs=True))
        self._handles.append(self.projector.register_forward_pre_hook(self._project, with_kwargs=True))
        super().install()

    def remove(self) -> None:
        super().remove()
        self._local = _Recorded()

    def begin(self, inputs: Mapping[str, Any]) -> None:
        """At the entry of the model: take over a record that came with features encoded beforehand."""
        encoded = inputs.get("mm_encoder_outputs") or {}
        for output in encoded.values() if isinstance(encoded, Mapping) else ():
            given = getattr(output, RECORD, None)
            if given is not None:
                self._local.found = given

    def collect(self) -> TokenVision:
        """The record since the tower last ran."""
        found, self._local.found = self._local.found, None
        if found is None:
            raise UnsupportedModelError(
                "A scorer reads the vision tower, but the tower did not run: the pictures came as features. Encode them "
                "with the pruner on the model, or through vispco's FeatureStore, which keeps what scorers need."
            )
        return found

    def _begin(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = dict(self._signature.bind_partial(*args, **kwargs).arguments)
        self._local.call = {**bound, **bound.pop("kwargs", {})}
        self._local.parts = {}

    def _attend(self, number: int, call: AttentionCall) -> Attended:
        for kind, block in self.wanted[number]:
            if kind == "keys":
                found = call.key.detach().mean(1)
            else:
                from_class = kind == "attention" and self.family.has_class_token
                found = received_in_tower(call, from_class=from_class)[..., None]
            self._local.parts.setdefault(f"{kind}.{block}", []).append(found)
        return call.run()

    def _project(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        local = self._local
        if local.call is None:
            return
        call, local.call = local.call, None
        values: dict[str, Tensor] = {}
        if self.needs.features:
            states = args[0] if args else next(v for v in kwargs.values() if isinstance(v, Tensor))
            values["features"] = self.family.pool_patches(self.model, states.detach(), call)
        for name, parts in local.parts.items():
            pooled = self.family.pool_patches(self.model, torch.cat(parts, dim=1), call)
            values[name] = pooled if name.startswith("keys.") else pooled[..., 0]
        local.found = TokenVision(values)


def encode_pictures(model: nn.Module, inputs: Mapping[str, Any], needs: VisionNeeds) -> dict[str, Any]:
    """Features of the pictures and videos of a batch, as `mm_encoder_outputs` of the model's forward pass.

    A record of the tower, if one is needed, goes with it.
    """
    family = family_of(model)
    if needs:
        family.check_vision(model)
    found = {}
    pictures = [name for name in family.picture_inputs if name != VIDEOS]
    with ExitStack() as stack:
        for handle in interpolate_positions(family, model):
            stack.callback(handle.remove)
        for kind, names in (("image", pictures), ("video", [VIDEOS])):
            if all(inputs.get(name) is None for name in names):
                continue
            encoder: Any = getattr(family.base(model), f"get_{kind}_features")
            wanted = {name: inputs[name] for name in inspect.signature(encoder).parameters if name in inputs}
            with VisionTap(family, model, needs) if needs else nullcontext() as tap:
                found[kind] = encoder(**wanted, return_dict=True)
                if tap is not None:
                    setattr(found[kind], RECORD, tap.collect())
    return found


def interpolate_positions(family: Family, model: nn.Module) -> list[Any]:
    """Let a tower with learned positions take squares of another size than its own; handles of the hooks that do it."""

    def enter(module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        pixels = args[0] if args else kwargs["pixel_values"]
        own = tuple(pixels.shape[-2:]) == (module.image_size, module.image_size)
        return None if own else (args, {**kwargs, "interpolate_pos_encoding": True})

    if not family.interpolates:
        return []
    tower = family.vision_tower(family.base(model))
    return [
        module.register_forward_pre_hook(enter, with_kwargs=True)
        for module in tower.modules()
        if hasattr(module, "interpolate_pos_encoding")
    ]


def vision_record(found: TokenVision, layout: TokenLayout) -> VisionRecord:
    """A record by visual slot, from one by visual token in the order of the batch."""
    total = sum(layout.num_visual)
    if len(found) != total:
        raise UnsupportedModelError(
            f"The vision tower was heard for {len(found)} visual tokens, but the batch has {total}. Scorers that read the "
            "tower serve pictures or videos, not both in one batch, and no beams over features encoded beforehand."
        )

    def by_slot(values: Tensor) -> Tensor:
        out = values.new_zeros(*layout.visual_index.shape, *values.shape[1:])
        out[layout.is_visual_slot] = values.to(out.device)
        return out

    record = VisionRecord(by_slot(found.values["features"]) if "features" in found.values else None)
    for name, values in found.values.items():
        kind, _, block = name.partition(".")
        if kind in KINDS:
            getattr(record, kind)[float(block) if "." in block else int(block)] = by_slot(values)
    return record


def _block_number(block: Block, depth: int, whole: Sequence[int]) -> int:
    """The number of a block of the tower; see `VisionNeeds`."""
    if isinstance(block, int) and -depth <= block < depth:
        return block % depth
    if isinstance(block, float) and 0 <= block < 1:
        return min(whole, key=lambda number: (abs(number - int(block * depth)), number))
    raise UnsupportedModelError(
        f"The scorer reads block {block} of the vision tower, which has {depth} blocks. Choose another, or a share of the "
        "depth between 0 and 1, such as 0.5."
    )


@torch.no_grad()
def received_in_tower(call: AttentionCall, *, from_class: bool, gone: Tensor | None = None) -> Tensor:
    """Attention that each patch receives, mean over heads: from the class token, or mean over all patches. [I, P]

    gone: bool [I, P], patches that are hidden, as if they were not there.
    """
    batch, length = call.query.shape[0], call.query.shape[2]
    everything = torch.arange(length, device=call.query.device).expand(batch, -1)
    bounds = call.options.get("cu_seq_lens_q")
    if bounds is not None:  # flash attention takes all pictures at once
        options = {k: v for k, v in call.options.items() if not k.startswith(("cu_seq_lens", "max_length"))}
        parts = [
            replace(call, query=call.query[:, :, start:end], key=call.key[:, :, start:end], value=None, options=options)
            for start, end in pairwise(bounds.tolist())
        ]
        return torch.cat([received_in_tower(part, from_class=from_class) for part in parts], dim=1)
    rows = everything[:, :1] if from_class else everything
    if gone is None or from_class:
        return received_attention(call, rows, everything, hidden_keys=gone) / rows.shape[1]
    summed = received_attention(call, rows, everything, present=~gone, hidden_keys=gone)
    return summed / (~gone).sum(1, keepdim=True).clamp(min=1)
