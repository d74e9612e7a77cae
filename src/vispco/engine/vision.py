"""What the vision tower knows: features and received attention by visual token, for scorers that ask for them.

A tap listens to the tower while it encodes pictures, wherever that happens: inside the model's forward pass, in `generate()`
before it, or in an evaluator that encodes each picture once and hands the result on with the features.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Self

import torch
from torch import Tensor, nn

from vispco.engine.attention import Attended, AttentionCall, AttentionTap
from vispco.engine.rows import RowRequest, received_attention
from vispco.errors import UnsupportedModelError
from vispco.families import Family
from vispco.layout import TokenLayout
from vispco.scorers.base import VisionNeeds
from vispco.scorers.context import VisionRecord

RECORD = "vispco_vision"
"""The attribute of an encoder's output under which a record travels with the features of pictures encoded beforehand."""


@dataclass(frozen=True, eq=False)
class TokenVision:
    """A record of the tower, one row for each visual token, picture after picture: features [T, D], attention [T] by block."""

    features: Tensor | None = None
    attention: Mapping[int, Tensor] = field(default_factory=dict)

    def __len__(self) -> int:
        parts = [*self.attention.values(), *([] if self.features is None else [self.features])]
        return len(parts[0]) if parts else 0

    def tensors(self) -> dict[str, Tensor]:
        """As named tensors, for a store."""
        named = {f"attention.{block}": values for block, values in self.attention.items()}
        return named if self.features is None else {**named, "features": self.features}

    @classmethod
    def join(cls, parts: list[Mapping[str, Tensor]]) -> Self:
        """From the named tensors of several samples, in order."""
        whole = {name: torch.cat([part[name] for part in parts]) for name in parts[0]}
        blocks = {int(n.removeprefix("attention.")): v for n, v in whole.items() if n.startswith("attention.")}
        return cls(whole.get("features"), blocks)


class _Heard(threading.local):
    call: dict[str, Any] | None = None
    attention: dict[int, list[Tensor]]
    found: TokenVision | None = None


class VisionTap:
    """Listens to a model's vision tower while it is installed."""

    def __init__(self, family: Family, model: nn.Module, needs: VisionNeeds) -> None:
        self.family, self.model, self.needs = family, model, needs
        self.tower, self.projector = family.vision_tower(model), family.vision_projector(model)
        blocks = family.vision_attentions(model)
        outside = [b for b in needs.attention if not -len(blocks) <= b < len(blocks)]
        if outside:
            raise UnsupportedModelError(
                f"The scorer reads block {outside[0]} of the vision tower, which has {len(blocks)} blocks. Choose another."
            )
        self.blocks = {index: blocks[index] for index in needs.attention}
        self._signature = inspect.signature(self.tower.forward)
        self._tap = AttentionTap(dict(enumerate(self.blocks.values())), [], self._attend)
        self._handles: list[Any] = []
        self._heard = _Heard()

    def install(self) -> None:
        self._handles.append(self.tower.register_forward_pre_hook(self._begin, with_kwargs=True))
        self._handles.append(self.projector.register_forward_pre_hook(self._project, with_kwargs=True))
        self._tap.install()

    def remove(self) -> None:
        """Safe in any state."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        self._tap.remove()
        self._heard = _Heard()

    def __enter__(self) -> Self:
        self.install()
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def begin(self, inputs: Mapping[str, Any]) -> None:
        """At the entry of the model: take over a record that came with features encoded beforehand."""
        encoded = inputs.get("mm_encoder_outputs") or {}
        for output in encoded.values() if isinstance(encoded, Mapping) else ():
            given = getattr(output, RECORD, None)
            if given is not None:
                self._heard.found = given

    def collect(self) -> TokenVision:
        """What was heard since the tower last ran."""
        found, self._heard.found = self._heard.found, None
        if found is None:
            raise UnsupportedModelError(
                "A scorer reads the vision tower, but the tower did not run: the pictures came as features. Encode them "
                "with the pruner on the model, or through vispco's FeatureStore, which keeps what scorers need."
            )
        return found

    def _begin(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = dict(self._signature.bind_partial(*args, **kwargs).arguments)
        self._heard.call = {**bound, **bound.pop("kwargs", {})}
        self._heard.attention = {}

    def _attend(self, place: int, call: AttentionCall) -> Attended:
        block = self.needs.attention[place]
        self._heard.attention.setdefault(block, []).append(self._received(call))
        return call.run()

    @torch.no_grad()
    def _received(self, call: AttentionCall) -> Tensor:
        """Attention that each patch receives, mean over heads: from the class token, or mean over all patches. [I, P]"""
        batch, length = call.query.shape[0], call.query.shape[2]
        everything = torch.arange(length, device=call.query.device).expand(batch, -1)
        bounds = call.options.get("cu_seq_lens_q")
        if bounds is not None:  # flash attention takes all pictures at once
            edges = bounds.tolist()
            parts = [_cut(call, start, end) for start, end in pairwise(edges)]
            return torch.cat([self._received(part) for part in parts], dim=1)
        rows = everything[:, :1] if self.family.has_class_token else everything
        return received_attention(call, RowRequest(rows, everything)) / rows.shape[1]

    def _project(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        heard = self._heard
        if heard.call is None:
            return
        call, heard.call = heard.call, None
        features = None
        if self.needs.features:
            states = args[0] if args else next(v for v in kwargs.values() if isinstance(v, Tensor))
            features = self.family.pool_patches(self.model, states.detach(), call)
        attention = {
            block: self.family.pool_patches(self.model, torch.cat(parts, dim=1)[..., None], call)[..., 0]
            for block, parts in heard.attention.items()
        }
        heard.found = TokenVision(features, attention)


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

    features = None if found.features is None else by_slot(found.features)
    return VisionRecord(features, {block: by_slot(values) for block, values in found.attention.items()})


def _cut(call: AttentionCall, start: int, end: int) -> AttentionCall:
    options = {k: v for k, v in call.options.items() if not k.startswith(("cu_seq_lens", "max_length"))}
    part = slice(start, end)
    return AttentionCall(call.module, call.query[:, :, part], call.key[:, :, part], None, call.mask, options)
