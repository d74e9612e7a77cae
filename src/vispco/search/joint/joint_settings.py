"""How much a joint search measures, and for which budgets."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass

from vispco.search.calibration_batches import batch_lengths

_REFERENCE_BUDGET = (
    0.5  # at budgets above it fewer configurations are measured, below it more, so that levels cost about the same
)
_MAX_TRIAL_SCALE = 1.5  # so many times as many at most


@dataclass(frozen=True)
class JointSettings:
    """How much a joint search measures. A level is a share of what can be pruned: 0 the text alone, 1 the whole model.

    levels: those that get configurations of their own; each serves the budgets around it.
    ranking_levels: where all chains are compared. The other levels begin with what the adjacent ones found.
    rungs: samples of the three rungs; after the first stage the last rung has all hard samples. shapes: of each chain in the
    first rung. chains: the best ones, under which the best shape is tried. neighbours: shapes near the best that are added
    then. inherited: trials that a level takes from each adjacent one. shortlist: trials in the second and in the third rung.
    compensations: what each level tries on its best configuration, besides none (`Chain.compensate`); the best of them is then
    tried on the rest of the shortlist.
    anchors: configurations of each level between which the predictor may choose.
    stage_ends: the highest level of each stage but the last. The first stage is measured on all samples; each further one on
    the samples that hold `hard_share` of the loss at the end of the stage before, and on `easy_samples` of the others, which
    stand for the rest.
    servable: only configurations that prune once, before layer 0. seed: of which shapes are measured first.
    """

    levels: tuple[float, ...] = (0.04, 0.08, 0.13, 0.2, 0.3, 0.45, 0.7)
    ranking_levels: tuple[float, ...] = (0.08, 0.3, 0.7)
    rungs: tuple[int, int, int] = (48, 80, 128)
    shapes: int = 6
    chains: int = 4
    neighbours: int = 8
    inherited: int = 2
    shortlist: tuple[int, int] = (9, 6)
    compensations: tuple[float, ...] = (0.25, 0.5, 0.75, 1.0, -0.25)
    anchors: int = 5
    stage_ends: tuple[float, ...] = (0.13, 0.3)
    hard_share: float = 0.97
    easy_samples: int = 32
    servable: bool = False
    seed: int = 0

    def at(self, number: int, budget: float) -> int:
        """How many of so many configurations are measured at a budget: more where they are cheap, fewer where dear."""
        factor = min(_MAX_TRIAL_SCALE, _REFERENCE_BUDGET / budget)
        return int(number * factor) if factor > 1.0 else max(min(2, number), round(number * factor))

    def stages(self) -> list[list[float]]:
        """The levels of each stage, from low to high."""
        stages: dict[int, list[float]] = {}
        for level in sorted(self.levels):
            stages.setdefault(sum(level > end for end in self.stage_ends), []).append(level)
        return list(stages.values())

    def expected_cost(self, chains: int, batches: Sequence[Sized]) -> float:
        """Unpruned passes over a sample that the search comes to, about; for a progress bar."""
        samples = sum(batch_lengths(batches))
        rungs = [min(samples, rung) for rung in self.rungs]
        fair = [min(level, _REFERENCE_BUDGET) for level in self.levels]
        first = sum(min(level, _REFERENCE_BUDGET) for level in self.ranking_levels) * chains * self.shapes / 2
        level = (self.neighbours + 2 * self.inherited + len(self.compensations)) * rungs[0]
        level += sum(n * (b - a) for n, a, b in zip(self.shortlist, rungs, rungs[1:], strict=False))
        rest = sum(sum(levels) / (1 + stage) for stage, levels in enumerate(self.stages()))
        rest *= self.anchors * max(0, samples - rungs[-1])
        return first * rungs[0] + sum(fair) * (level + 2 * rungs[-1]) + rest


ONE_CHAIN = JointSettings(
    compensations=(),
    levels=(0.1, 0.2, 0.35, 0.6),
    ranking_levels=(0.1, 0.2, 0.35, 0.6),
    rungs=(16, 64, 128),
    shapes=32,
    shortlist=(12, 6),
    anchors=4,
    stage_ends=(0.2,),
)
"""The effort of a search with one chain: every level explores many shapes on few samples."""
