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
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, OptunaRival
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.schedule import Schedule
from vispco.cost import BudgetWarning, Cost, counts_for_budget
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner.budget_planner import BudgetPlanner, static_shape
from vispco.pruner.found_shape import deployed_gamma
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.joint.space import default_chains, joint_kernel

_INFEASIBLE_SCORE = -50.0  # the score of a chain whose first layers alone cost more than the budget; worse than any KL
_LEAST_GAP = 1e-3  # between two steps at one layer, which become one


@SEARCHES.register
@dataclass(frozen=True)
class TpeJoint(OptunaRival):
    """Chain and curve together. samples: how many calibration samples a trial looks at."""

    name: ClassVar[str] = "tpe-joint"
    least: ClassVar[Mapping[str, int]] = {"trials": 1, "samples": 1, "startup": 1, "seed": 0}

    trials: int = 24
    samples: int = 64

    def check_budget(self, calibration: Calibration, budget: float) -> None:
        calibration.sizes.under(Chain.of("uniform")).check_budget(budget)

    def prepare(self, calibration: Calibration) -> Calibration:
        return calibration.first(self.samples)

    def measure(self, calibration: Calibration, trial: Any, budget: float) -> tuple[float, Choice]:
        chains = {str(chain): chain for chain in default_chains()}
        chain = chains[trial.suggest_categorical("chain", list(chains))]
        params, own = suggest_steps(trial, calibration.num_layers), calibration.under(chain)
        floor = float(own.sizes.cost.lowest_fraction(own.sizes.workload).mean())
        score = _INFEASIBLE_SCORE if floor > budget else own.score(fitted_steps(params, own.sizes, budget))
        provenance = {"chain": str(chain), "score": score, "trial": trial.number, "params": params.tolist()}
        planner = _steps_pruner(chain, params, budget, calibration.sizes.cost)
        return score, Choice(provenance=provenance, planner=planner)


def suggest_steps(trial: Any, num_layers: int) -> Tensor:
    """Parameters [P] of the joint search's curves: three steps, each at a layer (0: before the model), with its height."""
    kernel: Any = joint_kernel()
    numbers = range(1, kernel.steps + 1)
    layers = sorted(trial.suggest_int(f"layer_{j}", 0, num_layers - 1) for j in numbers)
    shares = [trial.suggest_float(f"share_{j}", 0.01, 0.99) for j in numbers]
    positions = [layer - 0.5 for layer in layers]
    for place, (before, after) in enumerate(pairwise(positions), start=1):
        positions[place] = max(after, before + _LEAST_GAP)
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


def _steps_pruner(chain: Chain, params: Tensor, budget: float, cost: Cost) -> Pruner:
    """What is deployed: this chain and curve, moved to the budget of each sample."""
    kernel = replace(joint_kernel(), earliest_layer=chain.earliest_layer)
    return Pruner(chain, BudgetPlanner(static_shape(params), kernel, budget, cost, chain=chain))
