"""After VFlowOpt: three shares, before the language model and at two of its layers, by a Gaussian process.

Yang et al., "VFlowOpt: A Token Pruning Framework for LMMs with Visual Information Flow-Guided Optimization" (ICCV 2025).
Written from the paper's description.

Faithful: tokens leave in three stages, before the language model and at a third and two thirds of its depth; a Gaussian
process proposes the first shares, after some 9 % of random calls; the last share is solved from the budget; few samples (30).

Not faithful: Optuna's Gaussian process takes the place of scikit-optimize's. The weights of its importance map (entropy and
attention of patches) are not searched: `scorer` chooses before the model and inside it, and what it dropped is not
recycled. The measure is the comparison's, where the original takes the cosine between the last token's states with and
without pruning. The budget is FLOPs, met by every sample, where the original's is a mean number of tokens; where the last
share would have to exceed the one before, the curve is raised as a whole. Fewer calls than the original's 300.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, OptunaRival, solve_curve
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.scorers import Chain

_DEPTHS = (9 / 28, 18 / 28)  # of the two stages inside, on the paper's model


@SEARCHES.register
@dataclass(frozen=True)
class VFlowOpt(OptunaRival):
    """Bayesian optimisation of three shares. scorer: a chain that begins before layer 0."""

    name: ClassVar[str] = "vflowopt"
    least: ClassVar[Mapping[str, int]] = {"trials": 1, "samples": 1, "startup": 1, "seed": 0}

    trials: int = 32
    samples: int = 30
    scorer: str = "divprune+fastv"
    startup: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if Chain.of(self.scorer).earliest_layer > 0:
            raise InvalidInputError(
                f"scorer={self.scorer!r} was given to {self.name!r}, and it cannot choose before the language model. Give "
                "a chain such as 'divprune+fastv'."
            )

    def make_sampler(self, optuna: Any) -> Any:
        return optuna.samplers.GPSampler(seed=self.seed, n_startup_trials=self.startup)

    def check_budget(self, calibration: Calibration, budget: float) -> None:
        calibration.sizes.under(Chain.of(self.scorer)).check_budget(budget)

    def prepare(self, calibration: Calibration) -> Calibration:
        return calibration.first(self.samples).under(Chain.of(self.scorer))

    def measure(self, calibration: Calibration, trial: Any, budget: float) -> tuple[float, Choice]:
        before, inside = (trial.suggest_float(name, 0.02, 1.0) for name in ("before", "inside"))
        curve = three_stages(before, inside, budget, calibration.sizes)
        score = calibration.score(calibration.sizes.fit(curve, budget))
        provenance = {"before": before, "inside": inside, "score": score, "scorer": self.scorer}
        return score, Choice(curve, provenance=provenance, chain=calibration.chain)


def three_stages(before: float, inside: float, budget: float, sizes: SampleSizes) -> Schedule:
    """Shares of what is left at each stage; the last one is the largest that meets the budget at a typical size."""
    L, size = sizes.num_layers, sizes.typical
    places = [max(1, round(depth * L)) for depth in _DEPTHS]
    curve = torch.ones(L, dtype=torch.float64) * before
    curve[places[0] :] = before * inside
    last = torch.arange(L) >= places[1]

    def staged(share: Tensor) -> Tensor:
        return torch.where(last, share[..., None] * before * inside, curve)

    return Schedule(tuple(solve_curve(staged, budget, size, sizes.cost)[0].tolist()))
