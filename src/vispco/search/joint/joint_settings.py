"""How much a joint search measures, and at which levels."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from vispco.cost.workload import Array
from vispco.pruner.configurations import level_of

_REFERENCE_BUDGET = (
    0.5  # at budgets above it fewer configurations are measured, below it more, so that levels cost about the same
)
_MAX_TRIAL_SCALE = 1.5  # so many times as many at most
_MAX_DISTANCE = 0.02  # of a budget from the level that serves it, as a fraction of the FLOPs
_SERVED_SIZES = (0.1, 0.9)  # quantiles of the samples' floors between which that holds
_SERVED_BUDGETS = 0.5  # up to which it holds; above it all sizes are served by the level of the median one
_MOVE = 0.1  # of an explored level, so that it is that of a budget
_EXPECTED_GROWTH = 4  # times the last rung: samples of a typical search


@dataclass(frozen=True)
class JointSettings:
    """How much a joint search measures. A level is a share of what can be pruned: 0 the text alone, 1 the whole model.

    levels: those that are explored. table_levels: further ones, and more are added so that every budget has a level near it
    (`served_levels`). All of these measure what the adjacent explored ones found.
    ranking_levels: where all chains are compared. The other levels begin with what the adjacent ones found.
    rungs: samples of the three rungs; after the first stage the last rung has all hard samples. shapes: of each chain in the
    first rung. chains: the best ones, under which the best shape is tried. neighbours: shapes near the best that are added
    then. inherited: trials that a level takes from each adjacent one. shortlist: trials in the second and in the third rung.
    compensations: what each level may try on its best configuration, besides none (`Chain.compensate`): of the positive ones the
    middle, then the other positive ones if it is better than none, else the negative ones. The best is then tried on the rest
    of the shortlist.
    anchors: configurations of each level between which the predictor may choose.
    stage_ends: the highest level of each stage but the last. The first stage is measured on twice as many samples again and
    again: to `min_samples` in any case (which inputs need much, a mean budget's question, takes more samples than which
    configurations are good), then as long as it gains, up to `max_samples`; each further one on those of them that hold
    `hard_share` of the loss at the end of the stage before, and on `easy_samples` of the others, which stand for the rest.
    servable: only configurations that prune once, before layer 0. seed: of which shapes are measured first.
    """

    levels: tuple[float, ...] = (0.08, 0.13, 0.2, 0.45)
    table_levels: tuple[float, ...] = (0.04, 0.3)
    ranking_levels: tuple[float, ...] = (0.08, 0.2, 0.45)
    rungs: tuple[int, int, int] = (32, 64, 128)
    min_samples: int = 512
    max_samples: int = 512
    shapes: int = 4
    chains: int = 4
    neighbours: int = 6
    inherited: int = 2
    shortlist: tuple[int, int] = (6, 4)
    compensations: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, -0.25)
    anchors: int = 5
    stage_ends: tuple[float, ...] = (0.15, 0.32)
    hard_share: float = 0.97
    easy_samples: int = 64
    servable: bool = False
    seed: int = 0

    def at(self, number: int, budget: float) -> int:
        """How many of so many configurations are measured at a budget: more where they are cheap, fewer where dear."""
        factor = min(_MAX_TRIAL_SCALE, _REFERENCE_BUDGET / budget)
        return int(number * factor) if factor > 1.0 else max(min(2, number), round(number * factor))

    def served_levels(self, budgets: Sequence[float], floors: Array) -> dict[float, bool]:
        """The levels of a search for budgets, from low to high, and whether each is explored.

        floors: [M], of calibration samples (`text_floor`). A budget has the level that it is for a sample of the median
        floor; an explored level near it moves there. More levels serve the samples of other sizes, so that none between the
        quantiles `_SERVED_SIZES` is served by a level further than 2 points away; at budgets above one half little is lost.
        """
        low, middle, high = np.quantile(floors, (_SERVED_SIZES[0], 0.5, _SERVED_SIZES[1]))
        lowest = min((*self.levels, *self.table_levels))
        near = _MAX_DISTANCE / (1.0 - middle)
        own = (round(float(level_of(budget, middle)), 4) for budget in budgets)
        found = {level: False for level in own if level > lowest}
        for level in (*self.levels, *self.table_levels):
            nearest = min(found, key=lambda each: abs(each - level), default=level)
            moved = nearest if abs(nearest - level) <= max(near, _MOVE * level) else level
            found[moved] = found.get(moved, False) or level in self.levels
        sizes = np.sort(floors[(floors >= low) & (floors <= high)])[::-1]  # from low levels to high ones
        lower = sorted(budget for budget in budgets if budget <= _SERVED_BUDGETS)
        for level in (float(level) for budget in lower for level in level_of(budget, sizes)):
            if level > lowest and min(abs(level - each) for each in found) > near:
                above = min((each for each in found if each > level), default=1.0)
                found[round(max(level, float(min(level + near, above - 2 * near))), 4)] = False
        return dict(sorted(found.items()))

    def stages(self, levels: Sequence[float]) -> list[list[float]]:
        """The levels of each stage, from low to high."""
        stages: dict[int, list[float]] = {}
        for level in sorted(levels):
            stages.setdefault(sum(level > end for end in self.stage_ends), []).append(level)
        return list(stages.values())

    def expected_passes(self, chains: int, samples: int, budgets: Sequence[float], floor: float) -> float:
        """Unpruned passes over a sample that the search comes to, about, teacher included. floor: of a typical sample."""
        first, second, last = (min(samples, rung) for rung in self.rungs)
        grown = min(samples, self.max_samples, _EXPECTED_GROWTH * last)
        total = float(grown)
        for level, explored in self.served_levels(budgets, np.array([floor])).items():
            budget = floor + level * (1.0 - floor)
            trials = 2 * self.at(self.inherited, budget)
            if explored:
                trials += self.at(self.neighbours, budget) + (self.at(self.shortlist[0], budget) + 3) // 2
                trials += self.at(self.shapes, budget) * (chains + 1) // 2 if level in self.ranking_levels else 0
            passes = trials * first + self.at(self.shortlist[0], budget) * (second - first)
            passes += self.at(self.shortlist[1], budget) * (last - second)
            total += budget * (passes + self.anchors * (grown - last) * (level <= (self.stage_ends or (1.0,))[0]))
        return total


ONE_CHAIN = JointSettings(
    compensations=(),
    levels=(0.1, 0.2, 0.35, 0.6),
    table_levels=(),
    ranking_levels=(0.1, 0.2, 0.35, 0.6),
    rungs=(16, 64, 128),
    min_samples=0,
    max_samples=1024,
    shapes=32,
    neighbours=8,
    shortlist=(12, 6),
    anchors=4,
    stage_ends=(0.2,),
    easy_samples=32,
)
"""The effort of a search with one chain: every level explores many shapes on few samples."""
