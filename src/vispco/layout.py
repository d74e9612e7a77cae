"""Where the visual, text and pad tokens of a batch are: the one description that scorers and the engine share."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from vispco.errors import InvalidInputError


@dataclass(frozen=True)
class TokenLayout:
    """The tokens of one forward pass, sample by sample. It knows nothing of a model family.

    visual: bool [B, N], image and video placeholders.
    real: bool [B, N], everything but padding.
    query: int64 [B], position of the last instruction token of each sample, wherever the padding is.
    num_visual, num_text: host integers per sample (padding is neither).
    image_sizes: for each image or video in order of appearance, its merged token grid (frames, rows, columns), where
        the family knows it.
    """

    visual: Tensor
    real: Tensor
    query: Tensor
    num_visual: tuple[int, ...]
    num_text: tuple[int, ...]
    num_instruction: int
    image_sizes: tuple[tuple[int, int, int], ...] | None = None

    @classmethod
    def build(
        cls,
        visual: Tensor,
        real: Tensor | None = None,
        *,
        answers: Tensor | None = None,
        image_sizes: tuple[tuple[int, int, int], ...] | None = None,
    ) -> TokenLayout:
        """Read the layout off boolean masks [B, N]; `answers` marks tokens that a model would have to write itself.

        Answer tokens are never queries: the last instruction token is the last real token before the first answer.
        The counts are brought to the host here, once per prefill, so that no layer hook has to wait for a device.
        """
        visual = visual.bool()
        real = torch.ones_like(visual) if real is None else real.bool()
        visual = visual & real
        positions = torch.arange(visual.shape[1], device=visual.device)
        instruction = real
        if answers is not None:
            started = answers.bool().cumsum(-1) > 0
            instruction = real & ~started
        query = torch.where(instruction, positions, -1).amax(-1)
        seen = visual.cumsum(-1) > 0
        rows = instruction & ~visual & seen
        table = torch.stack([visual.sum(-1), (real & ~visual).sum(-1), rows.sum(-1), query]).tolist()
        if min(table[3]) < 0:
            sample = table[3].index(min(table[3]))
            raise InvalidInputError(
                f"Sample {sample} of the batch has no instruction token (only padding or answer tokens). "
                "Every sample needs at least one token of text."
            )
        return cls(visual, real, query, tuple(table[0]), tuple(table[1]), max(table[2]), image_sizes)

    @property
    def batch_size(self) -> int:
        return int(self.visual.shape[0])

    @property
    def length(self) -> int:
        return int(self.visual.shape[1])

    @property
    def has_visual(self) -> bool:
        return any(self.num_visual)

    @cached_property
    def visual_index(self) -> Tensor:
        """Position in the sequence of each visual token; int64 [B, V], V the largest count, padded with N."""
        return self._positions_of(self.visual, max(self.num_visual, default=0))

    @cached_property
    def is_visual_slot(self) -> Tensor:
        """Which of the V slots hold a token; bool [B, V]."""
        return self.visual_index < self.length

    @cached_property
    def instruction_index(self) -> Tensor:
        """Positions of the instruction's text tokens that can see a visual token; int64 [B, R], padded with N.

        Where a sample has none (no text after its picture), its last instruction token stands in.
        """
        positions = torch.arange(self.length, device=self.visual.device)
        seen = self.visual.cumsum(-1) > 0
        rows = self.real & ~self.visual & seen & (positions <= self.query[:, None])
        index = self._positions_of(rows, max(self.num_instruction, 1))
        index[:, 0] = torch.where(index[:, 0] == self.length, self.query, index[:, 0])
        return index

    @cached_property
    def after_image(self) -> Tensor:
        """Position of the first text token after the last visual one: int64 [B].

        Where no text follows the pictures, the last instruction token stands in.
        """
        positions = torch.arange(self.length, device=self.visual.device)
        last = torch.where(self.visual, positions, -1).amax(-1, keepdim=True)
        behind = self.real & ~self.visual & (positions > last) & (positions <= self.query[:, None])
        first = torch.where(behind, positions, self.length).amin(-1)
        return torch.where(first == self.length, self.query, first)

    @cached_property
    def image_index(self) -> Tensor:
        """Which image (counted over the batch, in order) each visual slot belongs to; int64 [B, V], -1 for none."""
        order = torch.where(self.is_visual_slot, 1, 0).flatten().cumsum(0).sub(1).view_as(self.visual_index)
        if self.image_sizes is not None:
            sizes = torch.tensor([t * h * w for t, h, w in self.image_sizes], device=order.device)
            index = torch.bucketize(order, sizes.cumsum(0), right=True)
        else:  # a run of neighbouring visual tokens is one image
            previous = torch.cat([self.visual_index[:, :1] - 2, self.visual_index[:, :-1]], dim=1)
            starts = (self.visual_index != previous + 1) & self.is_visual_slot
            index = starts.flatten().cumsum(0).sub(1).view_as(order)
        return torch.where(self.is_visual_slot, index, -1)

    @cached_property
    def coordinates(self) -> Tensor | None:
        """(frame, row, column) of each visual slot in its image's token grid; int64 [B, V, 3], or None if unknown."""
        if self.image_sizes is None:
            return None
        device = self.visual_index.device
        grids = [
            torch.cartesian_prod(torch.arange(t), torch.arange(h), torch.arange(w)) for t, h, w in self.image_sizes
        ]
        table = torch.cat([g.view(-1, 3) for g in grids]).to(device)
        order = torch.where(self.is_visual_slot, 1, 0).flatten().cumsum(0).sub(1).clamp(0, len(table) - 1)
        found = table[order].view(*self.visual_index.shape, 3)
        return torch.where(self.is_visual_slot[..., None], found, -1)

    def _positions_of(self, mask: Tensor, width: int) -> Tensor:
        positions = torch.arange(self.length, device=mask.device).expand_as(mask)
        packed = torch.where(mask, positions, self.length).sort(-1).values
        if width > packed.shape[1]:
            pad = packed.new_full((packed.shape[0], width - packed.shape[1]), self.length)
            return torch.cat([packed, pad], dim=1)
        return packed[:, :width].contiguous()
