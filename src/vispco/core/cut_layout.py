"""`CutLayout`: the tokens of a forward pass whose vision tower let some of its visual tokens go."""

from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Self

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.errors import InvalidInputError
from vispco.core.layout import Array, ImageSizes, TokenLayout


@dataclass(frozen=True, eq=False)
class CutLayout(TokenLayout):
    """What enters the language model: tokens that left inside the tower are neither visual nor text here.

    uncut: the layout of all tokens. passed: the number of blocks that have processed each visual slot of it, int64 [B, V].
    spent: FLOPs of each sample's tower as it ran, int64 [B].
    """

    uncut: TokenLayout = field(kw_only=True)
    passed: Array = field(kw_only=True)
    spent: Array = field(kw_only=True)

    @classmethod
    def of(
        cls, whole: TokenLayout, passed: Array, num_blocks: int, spent: Array | None = None, *, rebuilt: bool = False
    ) -> Self:
        """The layout behind a tower of `num_blocks` blocks. Tokens that all of them processed enter the language model.

        passed: int64 [T], the number of blocks that have processed each visual token. spent: FLOPs [T]; their sum over a
        sample's tokens is what its tower took. rebuilt: tokens that left were rebuilt at the end of the tower, and enter, too.
        """
        left, blocks = whole.visual_map.copy(), np.zeros(whole.slots.shape, dtype=np.int64)
        left[whole.visual_map] = (passed >= num_blocks) | rebuilt
        blocks[whole.slots < whole.length] = passed
        gone = whole.visual_map & ~left
        if whole.read_map is not None and (whole.read_map & gone).any():
            raise InvalidInputError(
                "The output of a visual token is read (a prompt that ends with a picture, or labels on one), and it has left inside "
                "the vision tower. Put text behind the picture, or use a schedule without a tower part."
            )
        parts = np.split(np.zeros_like(passed) if spent is None else spent, np.cumsum(whole.num_visual)[:-1])
        took = np.array([part.sum() for part in parts], dtype=np.int64)
        given = {each.name: getattr(whole, each.name) for each in fields(whole) if each.init}
        maps = {"visual_map": left, "real_map": whole.real_map & ~gone, "known": {}}
        return cls(**{**given, **maps}, uncut=whole, passed=blocks, spent=took)

    @property
    def whole(self) -> TokenLayout:
        return self.uncut

    @cached_property
    def gone(self) -> Tensor:  # type: ignore[override]
        return self.on_device(self.whole.visual_map & ~self.visual_map)

    @cached_property
    def prompt_sizes(self) -> Array:
        """Those of a `TokenLayout`, and the visual tokens before the cut: int64 [B, 5]."""
        shown = self.whole.num_visual if self.pixels == 1.0 else self.whole_pictures[1]
        numbers = (self.num_prompt, self.num_visual, self.num_instruction, self.num_read, shown)
        return np.array(numbers, dtype=np.int64).T

    @cached_property
    def image_sizes(self) -> ImageSizes | None:
        return self.whole.image_sizes

    @cached_property
    def tower_flops(self) -> Array:
        return self.whole.tower_flops

    @cached_property
    def whole_pictures(self) -> tuple[Array, Array]:
        return self.whole.whole_pictures

    @cached_property
    def image_at(self) -> Array:
        return self._of_whole(self.whole.image_at)

    @cached_property
    def cell_at(self) -> Array | None:
        return None if self.whole.cell_at is None else self._of_whole(self.whole.cell_at)

    @cached_property
    def picture_at(self) -> Array:
        own = self._of_whole(self.whole.picture_at)
        found: Array = np.where(own < 0, own.max(axis=1, initial=-1, keepdims=True) + 1, own)
        return found

    def in_whole(self, slots: Tensor) -> Tensor:
        positions = functional.pad(torch.zeros_like(self.whole.visual), (0, 1)).scatter(1, self.visual_index, slots)
        return positions.gather(1, self.whole.visual_index)

    def _of_whole(self, values: Array) -> Array:
        """What is known of the slots of `whole`, [B, V, ...], for the slots here; -1 for empty ones."""
        slots = np.take_along_axis(self.whole.slot_at, self.slots.clip(max=self.length - 1), axis=1)
        filled, last = self.slots < self.length, max(values.shape[1] - 1, 0)
        shape = (*filled.shape, *(1,) * (values.ndim - 2))
        found = np.take_along_axis(values, slots.clip(max=last).reshape(shape), axis=1)
        taken: Array = np.where(filled.reshape(shape), found, -1)
        return taken
