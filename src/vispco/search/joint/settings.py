"""How much a joint search measures, and for which budgets."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass

from vispco.search.calibration import batch_lengths

FAIR = 0.35  # at budgets above it fewer configurations are measured, so that no level takes all the work


@dataclass(frozen=True)
class JointSettings:
    """How much a joint search measures.

    levels: shares of what can be pruned that get configurations of their own; each serves the budgets around it.
    ranking: the levels at which all chains are compared. The others begin with what the levels beside them found.
    looks: samples of the three looks. shapes: shapes of each kind of chain in the first look. chains: the best ones, under
    which the best shape is tried. neighbours: shapes near the best that are added then. carried: configurations that a level takes
    over from the level beside it. shortlist: configurations in the second and in the third look.
    anchors: at most so many configurations of each level, between which the predictor chooses. levels_per_batch: at so many
    levels each further batch is measured. servable: only configurations that prune once, before layer 0.
    seed: of which shapes are looked at first.
    """

    levels: tuple[float, ...] = (0.04, 0.08, 0.12, 0.18, 0.25, 0.35, 0.5, 0.7)
    ranking: tuple[float, ...] = (0.08, 0.25, 0.5)
    looks: tuple[int, int, int] = (32, 64, 128)
    shapes: int = 5
    chains: int = 4
    neighbours: int = 7
    carried: int = 3
    shortlist: tuple[int, int] = (8, 4)
    anchors: int = 3
    levels_per_batch: int = 3
    servable: bool = False
    seed: int = 0

    def at(self, number: int, budget: float) -> int:
        """How many of so many configurations are measured at a budget: all of them up to a fair one, then fewer."""
        return max(min(2, number), round(number * min(1.0, FAIR / budget)))

    def expected_cost(self, chains: int, batches: Sequence[Sized]) -> float:
        """Unpruned passes over a sample that the search comes to, about; for a progress bar."""
        samples = sum(batch_lengths(batches))
        looks = [min(samples, look) for look in self.looks]
        fair = [min(level, FAIR) for level in self.levels]
        first = sum(min(level, FAIR) for level in self.ranking) * chains * self.shapes / 2
        level = (self.neighbours + 2 * self.carried) * looks[0]
        level += sum(n * (b - a) for n, a, b in zip(self.shortlist, looks, looks[1:], strict=False))
        share = self.levels_per_batch / len(self.levels)
        rest = sum(self.levels) * share * self.anchors * max(0, samples - looks[-1])
        return first * looks[0] + sum(fair) * (level + 2 * looks[-1]) + rest
