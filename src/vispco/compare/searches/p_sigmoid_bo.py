"""After P-Sigmoid: a sigmoid over depth that meets the budget, its free parameters by Bayesian optimisation.

Zhao et al., "Accelerating Multimodal Large Language Models by Searching Optimal Vision Token Reduction" (CVPR 2025).
No code is released; the exact sigmoid, the calibration size and the optimiser's settings could not be read. This is
*after* the method: r_i = 1 + (r - 1) sigm(gamma (i - k)), VisPCO's kernel, which is said to follow it. r is solved to
meet the budget, so every trial spends the same; k and gamma are searched by Optuna, by its tree-structured Parzen
estimator or its Gaussian process. The same seed gives the same trials.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

import torch

from vispco import kernels
from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, OptunaRival
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import UnknownNameError
from vispco.core.schedule import Schedule
from vispco.cost import clamp_budget, solve_kernel
from vispco.evaluation.sample_sizes import SampleSizes

_Sampler = Literal["tpe", "gp"]
_GAMMA = (0.1, 10.0)  # from nearly a line over 30 layers to a step


@SEARCHES.register
@dataclass(frozen=True)
class PSigmoidBO(OptunaRival):
    """Bayesian optimisation of centre and steepness."""

    name: ClassVar[str] = "p-sigmoid-bo"
    least: ClassVar[Mapping[str, int]] = {"trials": 1, "startup": 1, "seed": 0}

    sampler: _Sampler = "tpe"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampler not in get_args(_Sampler):
            raise UnknownNameError("sampler", self.sampler, list(get_args(_Sampler)))

    def make_sampler(self, optuna: Any) -> Any:
        if self.sampler == "gp":
            return optuna.samplers.GPSampler(seed=self.seed, n_startup_trials=self.startup)
        return super().make_sampler(optuna)

    def measure(self, calibration: Calibration, trial: Any, budget: float) -> tuple[float, Choice]:
        k = trial.suggest_float("k", 0.0, float(calibration.num_layers - 1))
        gamma = trial.suggest_float("gamma", *_GAMMA, log=True)
        curve = sigmoid(k, gamma, budget, calibration.sizes)
        score = calibration.score(calibration.sizes.fit(curve, budget))
        return score, Choice(curve, provenance={"k": k, "gamma": gamma, "score": score, "trial": trial.number})


def sigmoid(k: float, gamma: float, budget: float, sizes: SampleSizes) -> Schedule:
    """The sigmoid with this centre and steepness that costs the budget on a sample of typical size."""
    kernel = kernels.get("p-sigmoid", gamma=gamma, earliest_layer=sizes.earliest_layer)
    params = kernel.initial(sizes.num_layers, k=k)[None]  # type: ignore[call-arg]
    asked = torch.tensor([budget], dtype=torch.float64)
    limit = clamp_budget(asked, sizes.typical, sizes.cost)
    solved = solve_kernel(kernel, params, limit, sizes.typical, sizes.cost)
    return Schedule.from_kernel(kernel, solved[0], sizes.num_layers)
