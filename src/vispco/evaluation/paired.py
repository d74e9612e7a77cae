"""Two candidates on the same items: the difference of their accuracies, its interval, and whether it is within noise.

Items are shared, so intervals of the two accuracies say too little: most of their width is the items' own difficulty.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from vispco.core.errors import InvalidInputError

Scores: TypeAlias = Mapping[str, Sequence[float]]
"""By task, a score in [0, 1] of each item, in one order for all candidates."""

DRAWS = 2000
RIGHT = 0.5  # a score from here on is a right answer
LEVEL = 0.05


@dataclass(frozen=True)
class PairedDifference:
    """A candidate minus the one it is held against.

    difference: of accuracies, the mean over tasks. low, high: its 95 % bootstrap interval; items are drawn within tasks.
    better, worse: items that only the candidate, or only the other one, answers right. p: exact McNemar, two-sided.
    """

    difference: float
    low: float
    high: float
    better: int
    worse: int
    items: int
    p: float

    @property
    def within_noise(self) -> bool:
        """Whether the interval holds 0, or McNemar's test finds nothing at 5 %."""
        return self.low <= 0.0 <= self.high or self.p >= LEVEL

    @property
    def text(self) -> str:
        """For a cell of a table, in points."""
        shown = f"{100 * self.difference:+.1f} [{100 * self.low:+.1f}, {100 * self.high:+.1f}]"
        return shown + (" ~" if self.within_noise else "")

    @property
    def sentence(self) -> str:
        """For a verdict."""
        noise = "within noise" if self.within_noise else "more than noise"
        return (
            f"{100 * self.difference:+.1f} points on the same {self.items} items, 95 % interval {100 * self.low:+.1f} to "
            f"{100 * self.high:+.1f}, {self.better} items won and {self.worse} lost (McNemar p = {self.p:.2g}): {noise}"
        )

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "within_noise": self.within_noise}


def _mcnemar(better: int, worse: int) -> float:
    """The exact two-sided p-value of so many discordant pairs, each a fair coin if both candidates are alike."""
    pairs = better + worse
    tail = sum(math.comb(pairs, k) for k in range(min(better, worse) + 1))
    return float(min(1.0, 2 * tail / 2**pairs))


def paired_difference(scores: Scores, against: Scores, *, draws: int = DRAWS, seed: int = 0) -> PairedDifference:
    """The candidate with `scores` held against another on the same items. The same seed gives the same interval."""
    import numpy as np  # noqa: PLC0415 - help shows options of this package without it

    if not scores or {task: len(own) for task, own in scores.items()} != {t: len(o) for t, o in against.items()}:
        raise InvalidInputError(
            "Two candidates were compared that were not asked the same items. Evaluate both on the same tasks."
        )
    rng = np.random.default_rng(seed)
    own = {task: np.asarray(scores[task], float) for task in scores}
    other = {task: np.asarray(against[task], float) for task in scores}
    means, drawn = [], np.zeros(draws)
    for task, values in own.items():
        gaps = values - other[task]
        means.append(gaps.mean())
        drawn += gaps[rng.integers(0, len(gaps), (draws, len(gaps)))].mean(axis=1) / len(own)
    low, high = np.quantile(drawn, [LEVEL / 2, 1 - LEVEL / 2])
    right, others = (np.concatenate(list(each.values())) >= RIGHT for each in (own, other))
    better, worse = int((right & ~others).sum()), int((others & ~right).sum())
    difference = float(np.mean(means))
    return PairedDifference(difference, float(low), float(high), better, worse, len(right), _mcnemar(better, worse))
