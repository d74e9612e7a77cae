"""After P-Sigmoid: a sigmoid over depth that meets the budget, its free parameters by Bayesian optimisation.

Zhao et al., "Accelerating Multimodal Large Language Models by Searching Optimal Vision Token Reduction" (CVPR 2025).
No code is released; the exact sigmoid, the calibration size and the optimiser's settings could not be read. This is
*after* the method: r_i = 1 + (r - 1) sigm(gamma (i - k)), VisPCO's kernel, which is said to follow it. r is solved to
meet the budget, so every trial spends the same; k and gamma are searched by Optuna, by its tree-structured Parzen
estimator or its Gaussian process. The same seed gives the same trials.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle
from typing import Any, ClassVar, Literal, get_args

import torch

from vispco import kernels
from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.registry import SEARCHES
from vispco.compare.searches.rival import Choice, TrialRival, load_optuna
from vispco.core.errors import UnknownNameError
from vispco.core.schedule import Schedule
from vispco.cost import clamp_budget, solve_kernel
from vispco.evaluation.sample_sizes import SampleSizes

Sampler = Literal["tpe", "gp"]
GAMMA = (0.1, 10.0)  # from nearly a line over 30 layers to a step


@SEARCHES.register
@dataclass(frozen=True)
class PSigmoidBO(TrialRival):
    """Bayesian optimisation of centre and steepness. startup: random trials before the model decides."""

    name: ClassVar[str] = "p-sigmoid-bo"

    least: ClassVar[Mapping[str, int]] = {"trials": 1, "startup": 1, "seed": 0}

    sampler: Sampler = "tpe"
    startup: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        load_optuna()  # or a refusal, before anything is measured
        if self.sampler not in get_args(Sampler):
            raise UnknownNameError("sampler", self.sampler, list(get_args(Sampler)))

    def steps(self, calibration: Calibration, budgets: Sequence[float]) -> Iterator[tuple[float, Choice]]:
        L, sizes = calibration.num_layers, calibration.sizes
        optuna = load_optuna()
        studies = {b: optuna.create_study(direction="maximize", sampler=self._sampler(optuna)) for b in budgets}
        for budget in cycle(budgets):
            study = studies[budget]
            trial = study.ask()
            k = trial.suggest_float("k", 0.0, float(L - 1))
            gamma = trial.suggest_float("gamma", *GAMMA, log=True)
            curve = sigmoid(k, gamma, budget, sizes)
            study.tell(trial, calibration.score(sizes.fit(curve, budget)))
            found = study.best_trial.params
            history = [[t.params["k"], t.params["gamma"], t.value] for t in study.trials]
            chosen = sigmoid(found["k"], found["gamma"], budget, sizes)
            yield budget, Choice(chosen, provenance={**found, "score": study.best_value, "trials": history})

    def _sampler(self, optuna: Any) -> Any:
        if self.sampler == "gp":
            return optuna.samplers.GPSampler(seed=self.seed, n_startup_trials=self.startup)
        return optuna.samplers.TPESampler(seed=self.seed, n_startup_trials=self.startup, multivariate=True)


def sigmoid(k: float, gamma: float, budget: float, sizes: SampleSizes) -> Schedule:
    """The sigmoid with this centre and steepness that costs the budget on a sample of typical size."""
    kernel = kernels.get("p-sigmoid", gamma=gamma, earliest_layer=sizes.earliest_layer)
    params = kernel.initial(sizes.num_layers, k=k)[None]  # type: ignore[call-arg]
    asked = torch.tensor([budget], dtype=torch.float64)
    limit = clamp_budget(asked, sizes.typical, sizes.cost)
    solved = solve_kernel(kernel, params, limit, sizes.typical, sizes.cost)
    return Schedule.from_kernel(kernel, solved[0], sizes.num_layers)
