"""`TowerRun`: which cells of some pictures are left as a cut vision tower runs, and what that takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from vispco.core.layout import Array, ImageSizes
from vispco.cost.dimensions import Dimensions
from vispco.engine.vision import TokenVision
from vispco.families.tower_shape import TowerShape
from vispco.scorers.base import Scorer


@dataclass(eq=False)
class TowerRun:
    """One run of the tower on some pictures, by cells in the order of the tower.

    order: the number of each cell in the prompt. counts: cells of each picture before each block, [I, blocks].
    cells: int64 [n], those that are left. patches: where their patches were, in the tensors that the tower makes: [n * cell], or
    [I, class tokens + n / I * cell] for towers of squares; None as long as nothing has left.
    """

    shape: TowerShape
    grids: ImageSizes
    order: Array
    counts: Array
    cells: Array
    patches: Tensor | None = None
    divided: dict[int, tuple[Array, Array]] = field(
        default_factory=dict
    )  # by block behind a cut: its cells, their groups
    passed: Array = field(init=False)  # int64 [T], how many blocks have processed each cell
    scoring: Array = field(init=False)  # int64 [I], FLOPs

    def __post_init__(self) -> None:
        self.sizes = np.array([t * h * w for t, h, w in self.grids])
        self.picture = np.repeat(np.arange(len(self.grids)), self.sizes)  # of each cell: [T]
        self.passed = np.full(len(self.order), self.shape.num_blocks)
        self.scoring = np.zeros(len(self.grids), dtype=np.int64)

    @property
    def places(self) -> Array:
        """For towers of squares, the cells that are left as places in their picture: [I, n / I]."""
        return (self.cells % int(self.sizes[0])).reshape(len(self.sizes), -1)

    def flops(self, number: int) -> int:
        """What the tower has spent on one picture, the choices included."""
        segments = self.shape.segments((self.grids[number],))
        for block, (cells, groups) in self.divided.items():
            inside = np.bincount(groups[self.picture[cells] == number])
            segments[block] = inside[inside > 0].tolist()
        return self.shape.flops((self.grids[number],), segments=segments) + int(self.scoring[number])

    def record(self) -> TokenVision:
        """By visual token in the order of the prompt: 'passed', and 'spent', the picture's FLOPs at its first token."""
        passed, spent = np.empty_like(self.passed), np.zeros(len(self.order), dtype=np.int64)
        passed[self.order] = self.passed
        spent[np.cumsum(self.sizes) - self.sizes] = [self.flops(number) for number in range(len(self.grids))]
        return TokenVision({"passed": torch.from_numpy(passed), "spent": torch.from_numpy(spent)})


def choice_flops(scorer: Scorer, there: int, kept: int, sizes: Dimensions) -> int:
    """FLOPs of choosing `kept` of `there` cells of one picture. sizes: with the tower's width as `hidden`."""
    once = scorer.setup_flops(0, there, sizes) + scorer.choice_flops(there, there, sizes)
    return int(once + kept * scorer.flops_per_kept(there, sizes))
