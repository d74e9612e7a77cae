"""TPE over the joint space: which chain of scorers and which curve, by Optuna, for the bill of VisPCO's own search.

The rival that says whether successive halving, and not the space alone, earns its place.

Faithful: Optuna's tree-structured Parzen estimator, multivariate, with its own defaults; the candidates and the curves of
VisPCO's joint search (a chain as a category, three steps with their layers and heights), moved to the budget by the same
solver; the mean calibration KL (or accuracy, as the comparison says) decides; one study for each budget, in turn.

Not faithful to anything published: nobody searches this space. A trial looks at the first `samples` calibration samples, not
at all of them, so that a bill of a few dozen passes is more than ten trials for a budget. There is one configuration for all
inputs, where VisPCO chooses one for each.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.registry import SEARCHES
from vispco.compare.searches.rival import Choice, TrialRival, load_optuna
from vispco.core.schedule import Schedule
from vispco.cost import BudgetWarning, Cost, counts_for_budget
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner.found_shape import deployed_gamma
from vispco.pruner.planner import BudgetPlanner, static_shape
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.joint.space import default_chains, joint_kernel

INFEASIBLE_SCORE = -50.0  # the score of a chain whose first layers alone cost more than the budget; worse than any KL
LEAST_GAP = 1e-3  # between two steps at one layer, which become one


@SEARCHES.register
@dataclass(frozen=True)
class TpeJoint(TrialRival):
    """Chain and curve together. samples: how many calibration samples a trial looks at. startup: random trials at first."""

    name: ClassVar[str] = "tpe-joint"

    least: ClassVar[Mapping[str, int]] = {"trials": 1, "samples": 1, "startup": 1, "seed": 0}

    trials: int = 24
    samples: int = 64
    startup: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        load_optuna()  # or a refusal, before anything is measured

    def floor_sizes(self, calibration: Calibration) -> SampleSizes:
        return calibration.sizes.under(Chain.of("uniform"))

    def steps(self, calibration: Calibration, budgets: Sequence[float]) -> Iterator[tuple[float, Choice]]:
        optuna = load_optuna()
        few = calibration.first(self.samples)
        chains = {str(chain): chain for chain in default_chains()}
        studies = {budget: self._study(optuna) for budget in budgets}
        best: dict[float, tuple[int, Choice]] = {}
        for budget in cycle(budgets):
            study = studies[budget]
            trial = study.ask()
            chain = chains[trial.suggest_categorical("chain", list(chains))]
            params = suggest_steps(trial, few.num_layers)
            study.tell(trial, self._score(few, chain, params, budget))
            leader = study.best_trial
            if budget not in best or best[budget][0] != leader.number:
                best[budget] = leader.number, _choice(optuna, leader, chains, few, budget)
            yield budget, best[budget][1]

    def _study(self, optuna: Any) -> Any:
        sampler = optuna.samplers.TPESampler(seed=self.seed, n_startup_trials=self.startup, multivariate=True)
        return optuna.create_study(direction="maximize", sampler=sampler)

    def _score(self, calibration: Calibration, chain: Chain, params: Tensor, budget: float) -> float:
        own = calibration.under(chain)
        floor = float(own.sizes.cost.lowest_fraction(own.sizes.workload).mean())
        return INFEASIBLE_SCORE if floor > budget else own.score(fitted_steps(params, own.sizes, budget))


def suggest_steps(trial: Any, num_layers: int) -> Tensor:
    """Parameters [P] of the joint search's curves: three steps, each at a layer (0: before the model), with its height."""
    kernel: Any = joint_kernel()
    numbers = range(1, kernel.steps + 1)
    layers = sorted(trial.suggest_int(f"layer_{j}", 0, num_layers - 1) for j in numbers)
    shares = [trial.suggest_float(f"share_{j}", 0.01, 0.99) for j in numbers]
    positions = [layer - 0.5 for layer in layers]
    for place, (before, after) in enumerate(pairwise(positions), start=1):
        positions[place] = max(after, before + LEAST_GAP)
    heights = torch.tensor(shares).cumprod(0).clamp_min(kernel.r_min + 1e-6).tolist()
    params: Tensor = kernel.initial(num_layers, positions=positions, heights=heights)
    return params


def fitted_steps(params: Tensor, sizes: SampleSizes, budget: float) -> Schedule:
    """Whole tokens of each sample on the curve with these parameters, moved to the budget."""
    kernel, count = joint_kernel(), len(sizes)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        counts = counts_for_budget(
            kernel,
            params.expand(count, -1),
            torch.full((count,), budget, dtype=torch.float64),
            sizes.workload,
            sizes.cost,
            gamma=deployed_gamma(kernel),
            fill=False,
        )
    return Schedule.from_counts(counts, sizes.num_visual.tolist())


def steps_pruner(chain: Chain, params: Tensor, budget: float, cost: Cost) -> Pruner:
    """What is deployed: this chain and curve, moved to the budget of each sample."""
    kernel = replace(joint_kernel(), earliest_layer=chain.earliest_layer)
    return Pruner(chain, BudgetPlanner(static_shape(params), kernel, budget, cost, chain=chain))


def _choice(optuna: Any, best: Any, chains: dict[str, Chain], calibration: Calibration, budget: float) -> Choice:
    """The best trial so far, ready to run."""
    chain = chains[best.params["chain"]]
    params = suggest_steps(optuna.trial.FixedTrial(best.params), calibration.num_layers)
    provenance = {"chain": str(chain), "score": best.value, "trial": best.number, "params": params.tolist()}
    return Choice(provenance=provenance, deployed=steps_pruner(chain, params, budget, calibration.sizes.cost))
