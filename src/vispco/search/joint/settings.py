"""How much a joint search measures, and for which budgets."""

from collections.abc import Sequence, Sized
from dataclasses import dataclass

from vispco.search.calibration import batch_lengths


@dataclass(frozen=True)
class JointSettings:
    """How much a joint search measures.

    levels: shares of what can be pruned that get configurations of their own; each serves the budgets around it.
    ranking: the levels at which all chains are compared. Other levels take the chains of the nearest of them.
    looks: samples of the four looks. shapes: shapes of each chain in the first look. chains: chains that stay after it.
    neighbours: shapes near the best that are added then. shortlist: configurations in the third and in the fourth look.
    anchors: configurations of each level, between which the predictor chooses. levels_per_batch: at so many levels each
    further batch is measured. servable: only configurations that prune once, before layer 0.
    seed: of which shapes are looked at first.
    """

    levels: tuple[float, ...] = (0.04, 0.08, 0.12, 0.18, 0.25, 0.35, 0.5, 0.7)
    ranking: tuple[float, ...] = (0.08, 0.18, 0.35)
    looks: tuple[int, int, int] = (16, 64, 128)
    shapes: int = 7
    chains: int = 4
    neighbours: int = 24
    shortlist: tuple[int, int] = (12, 6)
    anchors: int = 4
    levels_per_batch: int = 3
    servable: bool = False
    seed: int = 0

    def expected_cost(self, chains: int, batches: Sequence[Sized]) -> float:
        """Unpruned passes over a sample that the search comes to, about; for a progress bar."""
        samples = sum(batch_lengths(batches))
        looks = [min(samples, look) for look in self.looks]
        few = min(chains, self.chains)
        first = sum(self.ranking) * chains + (sum(self.levels) - sum(self.ranking)) * few
        levels = sum(self.levels)
        total = first * self.shapes * looks[0] + levels * self.neighbours * looks[0]
        total += levels * sum(n * (b - a) for n, a, b in zip(self.shortlist, looks, looks[1:], strict=False))
        share = self.levels_per_batch / len(self.levels)
        return total + levels * share * self.anchors * max(0, samples - looks[-1])
