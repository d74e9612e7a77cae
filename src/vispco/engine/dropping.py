"""Passes that drop tokens: later layers process shorter sequences."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.indexing import take, take_tokens, token_axis
from vispco.engine.arguments import ArgumentCutter
from vispco.engine.gather import Places, Stage, merge, next_stage, restore, spread
from vispco.engine.kept import cut_shared
from vispco.engine.passes import Arguments, PruningPass
from vispco.scorers.base import Merge, Selection


@dataclass(eq=False)
class DropPass(PruningPass):
    """Dropped tokens are gone: the hidden states, rotary embeddings, masks and caches of later layers are shorter."""

    flat_masks: bool = False  # see `ArgumentCutter`

    def __post_init__(self) -> None:
        super().__post_init__()
        layout = self.layout
        self.cutter = ArgumentCutter(
            self.layers,
            layout.batch_size,
            layout.length,
            self.past,
            layout.device,
            self.flat_masks,
            self.embeddings.dtype,
            layout.visual,
            written=self.written,
        )
        self.upcoming: tuple[Stage, Tensor] | None = None  # the next stage, and where its tokens stand in this one
        self._slots: Tensor | None = None  # int64 [B, M], the visual slot of each token; V for text, V + 1 for padding
        self._left: Tensor | None = None  # where the tokens of a stage that has just begun stood in the one before
        self.untouched = 0  # number of leading layers for which `enter_layer` has nothing to do
        moved = self.past or layout.gone is not None or self.record or self.injections is not None
        if not moved and not self.layers.key_sources:
            self.untouched = self.choices.untouched

    def enter_layer(self, layer: int, hidden: Tensor, arguments: Arguments) -> tuple[Tensor, Arguments]:
        if self.injections is not None and layer in self.injections[1]:
            hidden = self._inject(layer, hidden, *self.injections)
        hidden, arguments = super().enter_layer(layer, hidden, arguments)
        if self._left is not None:
            cut_shared(arguments.get("shared_kv_states"), self._left)
            self._left = None
        return hidden, self.cutter.cut(layer, arguments)

    def _inject(self, layer: int, hidden: Tensor, visual: Tensor, features: Mapping[int, Tensor]) -> Tensor:
        """Add what the model adds to visual tokens at the entry of a layer (DeepStack), to those that are left.

        The model does it by a mask over the whole prompt, which fails once tokens are gone. hidden: [B, M, D]; visual: bool
        [B, N], features[layer]: [T, D], one row for each of them in order. The device is not asked how many there are.
        """
        rows, stage = features[layer].to(hidden.device, hidden.dtype), self.cutter.stage
        mask = visual.to(hidden.device)
        place = mask.flatten().cumsum(0).sub(1).clamp(min=0).view_as(mask)
        added = torch.where(mask[..., None], rows[place], rows.new_zeros(()))
        return hidden + (added if stage is None else take(added, stage.positions.to(added.device)))

    def enter_ffn(self, layer: int, hidden: Tensor) -> Tensor:
        """The tokens that the next layer keeps, where the others leave mid-layer."""
        hidden = super().enter_ffn(layer, hidden)
        return hidden if self.upcoming is None else take(hidden, self.upcoming[1].to(hidden.device))

    def leave_ffn(self, hidden: Tensor) -> Tensor:
        if self.upcoming is None:
            return hidden
        width = self.layout.length if self.cutter.stage is None else self.cutter.stage.positions.shape[1]
        return restore(hidden, Stage(self.upcoming[1], None), width)

    def leave(self, hidden: Tensor) -> Tensor:
        """Every token back in its place, so that indices of the caller hold."""
        return hidden if self.cutter.stage is None else restore(hidden, self.cutter.stage, self.layout.length)

    def arguments_now(self, layer: int, arguments: Arguments) -> Arguments:
        return self.cutter.cut(layer, arguments)

    def _apply(self, layer: int, selection: Selection) -> None:
        wanted = [t + row[layer] for t, row in zip(self.layout.num_text, self.plan.rows, strict=True)]
        if self._slots is None:
            self._slots = self.layout.slot_index
        stays = torch.cat([selection.keep, _text_and_padding(self.layout.batch_size, self.layout.device)], dim=1)
        here = stays.gather(1, self._slots)
        self.upcoming = next_stage(here, self.cutter.stage, max(wanted), exact=min(wanted) == max(wanted))

    def _take_effect(self, layer: int, hidden: Tensor) -> Tensor:
        if self.upcoming is None or self._slots is None:
            return hidden
        if self.merge is not None:
            hidden, self.merge = self._merged(hidden, self.merge), None
        stage, local = self.upcoming
        before = self.cutter.stage
        self._left = local if self.layers.key_sources else None
        bias = self.bias_at(layer)
        if any(self.choices.made[layer + 1 :]) or bias is not None:
            self._slots = self._slots.gather(1, local)
        self.cutter.enter(stage, None if bias is None else functional.pad(bias, (0, 2)).gather(1, self._slots))
        self.upcoming, self.places, self._columns = None, Places(stage, self.layout), None
        length = self.layout.length if before is None else before.positions.shape[1]
        return take_tokens(hidden, local, token_axis(hidden, self.layout.batch_size, length) or 1)

    def _merged(self, hidden: Tensor, asked: Merge) -> Tensor:
        """Carry out the merging that a scorer asked for."""
        sizes = torch.ones(self.live.shape, device=self.live.device) if self.sizes is None else self.sizes
        weight = sizes if asked.weight is None else asked.weight.float()
        place = self.places(self.layout.visual_index).clamp(max=hidden.shape[1])
        target = place.gather(1, asked.into.clamp(min=0)).masked_fill(asked.into < 0, -1)
        nowhere = torch.full(hidden.shape[:2], -1, device=place.device)
        nothing = torch.zeros(hidden.shape[:2], device=place.device)
        into, weights = spread(target, place, nowhere), spread(weight, place, nothing)
        hidden = merge(hidden, into.to(hidden.device), weights.to(hidden.device), normalise=asked.normalise)
        joined = (asked.into >= 0).float() * sizes
        grown = torch.zeros_like(sizes).scatter_add(1, asked.into.clamp(min=0), joined)
        self.sizes = torch.where(grown > 0, grown, sizes)
        return hidden


@lru_cache(maxsize=64)
def _text_and_padding(batch: int, device: torch.device) -> Tensor:
    """Two more slots of each sample, one for text, which stays, and one for padding, which does not: uint8 [B, 2]."""
    with torch.inference_mode(mode=False):
        return torch.tensor([[1, 0]], dtype=torch.uint8, device=device).expand(batch, -1)
