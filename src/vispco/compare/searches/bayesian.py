"""Rivals by Bayesian optimisation: Optuna proposes, and one study for each budget remembers. The same seed, the same
trials.

`p-sigmoid-bo`, after P-Sigmoid: a sigmoid over depth that meets the budget. Zhao et al., "Accelerating Multimodal Large
Language Models by Searching Optimal Vision Token Reduction" (CVPR 2025). No code is released; the exact sigmoid, the
calibration size and the optimiser's settings could not be read. This is *after* the method: r_i = 1 + (r - 1)
sigm(gamma (i - k)), VisPCO's kernel, which is said to follow it. r is solved to meet the budget, so every trial spends
the same; k and gamma are searched.

`vflowopt`, after VFlowOpt: three shares, before the language model and at two of its layers. Yang et al., "VFlowOpt: A
Token Pruning Framework for LMMs with Visual Information Flow-Guided Optimization" (ICCV 2025). Written from the paper's
description.
Faithful: tokens leave in three stages, before the language model and at a third and two thirds of its depth; a Gaussian
process proposes the first shares, after some 9 % of random calls; the last share is solved from the budget; few samples
(30).
Not faithful: Optuna's Gaussian process takes the place of scikit-optimize's. The weights of its importance map (entropy
and attention of patches) are not searched: `scorer` chooses before the model and inside it, and what it dropped is not
recycled. The measure is the comparison's, where the original takes the cosine between the last token's states with and
without pruning. The budget is FLOPs, met by every sample, where the original's is a mean number of tokens; where the last
share would have to exceed the one before, the curve is raised as a whole. Fewer calls than the original's 300.

`tpe-joint`: chain of scorers and curve together, for the bill of VisPCO's own search. The rival that says whether
successive halving, and not the space alone, earns its place. Faithful: Optuna's tree-structured Parzen estimator,
multivariate, with its own defaults; the candidates and the curves of VisPCO's joint search (a chain as a category,
three steps with their layers and heights), moved to the budget by the same solver; the mean calibration KL (or
accuracy, as the comparison says) decides. Not
faithful to anything published: nobody searches this space. A trial looks at the first `samples` calibration samples, so
that a bill of a few dozen passes is more than ten trials for a budget. There is one configuration for all inputs, where
VisPCO chooses one for each.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args

import torch
from torch import Tensor

from vispco import kernels
from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, TrialRival, TryNext, solve_curve
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError, UnknownNameError, needs_extra
from vispco.core.schedule import Schedule
from vispco.cost import BudgetWarning, clamp_budget, counts_for_budget, solve_kernel
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner.budget_planner import BudgetPlanner, deployed_gamma, static_shape
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.joint.space import default_chains, joint_kernel

_Sampler = Literal["tpe", "gp"]
_GAMMA = (0.1, 10.0)  # of a sigmoid: from nearly a line over 30 layers to a step
_DEPTHS = (9 / 28, 18 / 28)  # of VFlowOpt's two stages inside, on the paper's model
_INFEASIBLE_SCORE = -50.0  # the score of a chain whose first layers alone cost more than the budget; worse than any KL
_LEAST_GAP = 1e-3  # between two steps at one layer, which become one


@dataclass(frozen=True)
class _OptunaRival(TrialRival):
    """A search whose proposals are Optuna's: one study for each budget. startup: random trials before its model decides."""

    startup: int = 10

    def __post_init__(self) -> None:
        super().__post_init__()
        _load_optuna()  # or a refusal, before anything is measured

    def make_sampler(self, optuna: Any) -> Any:
        """Optuna's sampler: a multivariate tree-structured Parzen estimator."""
        return optuna.samplers.TPESampler(seed=self.seed, n_startup_trials=self.startup, multivariate=True)

    @abstractmethod
    def measure(self, calibration: Calibration, trial: Any, budget: float) -> tuple[float, Choice]:
        """Ask an Optuna trial for a candidate and measure it: its score and what it is."""

    def prepare(self, calibration: Calibration) -> Calibration:
        """Return the samples that a trial looks at."""
        return calibration

    def begin(self, calibration: Calibration, budgets: Sequence[float]) -> TryNext:
        optuna, few = _load_optuna(), self.prepare(calibration)
        studies = {b: optuna.create_study(direction="maximize", sampler=self.make_sampler(optuna)) for b in budgets}

        def try_next(budget: float) -> tuple[float, Choice]:
            trial = studies[budget].ask()
            score, choice = self.measure(few, trial, budget)
            studies[budget].tell(trial, score)
            return score, choice

        return try_next


def _load_optuna() -> Any:
    """Optuna without its messages, or a sentence on how to get it."""
    with needs_extra("This search needs Optuna", "search"):
        import optuna  # noqa: PLC0415 - an extra, and slow to import
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.filterwarnings("ignore", category=optuna.exceptions.ExperimentalWarning)
    return optuna


@SEARCHES.register
@dataclass(frozen=True)
class _PSigmoidBO(_OptunaRival):
    """Bayesian optimisation of centre and steepness."""

    name: ClassVar[str] = "p-sigmoid-bo"
    least: ClassVar[Mapping[str, float]] = {"trials": 1, "startup": 1, "seed": 0}

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
        curve = _sigmoid(k, gamma, budget, calibration.sizes)
        score = calibration.score(calibration.sizes.fit(curve, budget))
        return score, Choice(curve, provenance={"k": k, "gamma": gamma, "score": score, "trial": trial.number})


def _sigmoid(k: float, gamma: float, budget: float, sizes: SampleSizes) -> Schedule:
    """The sigmoid with this centre and steepness that costs the budget on a sample of typical size."""
    kernel = kernels.get("p-sigmoid", gamma=gamma, earliest_layer=sizes.earliest_layer)
    params = kernel.initial(sizes.num_layers, k=k)[None]  # type: ignore[call-arg]
    asked = torch.tensor([budget], dtype=torch.float64)
    limit = clamp_budget(asked, sizes.typical, sizes.cost)
    solved = solve_kernel(kernel, params, limit, sizes.typical, sizes.cost)
    return Schedule.from_kernel(kernel, solved[0], sizes.num_layers)


@SEARCHES.register
@dataclass(frozen=True)
class _VFlowOpt(_OptunaRival):
    """Bayesian optimisation of three shares. scorer: a chain that begins before layer 0."""

    name: ClassVar[str] = "vflowopt"
    least: ClassVar[Mapping[str, float]] = {"trials": 1, "samples": 1, "startup": 1, "seed": 0}

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
        curve = _three_stages(before, inside, budget, calibration.sizes)
        score = calibration.score(calibration.sizes.fit(curve, budget))
        provenance = {"before": before, "inside": inside, "score": score, "scorer": self.scorer}
        return score, Choice(curve, provenance=provenance, chain=calibration.chain)


def _three_stages(before: float, inside: float, budget: float, sizes: SampleSizes) -> Schedule:
    """Shares of what is left at each stage; the last one is the largest that meets the budget at a typical size."""
    L, size = sizes.num_layers, sizes.typical
    places = [max(1, round(depth * L)) for depth in _DEPTHS]
    curve = torch.ones(L, dtype=torch.float64) * before
    curve[places[0] :] = before * inside
    last = torch.arange(L) >= places[1]

    def staged(share: Tensor) -> Tensor:
        return torch.where(last, share[..., None] * before * inside, curve)

    return Schedule(tuple(solve_curve(staged, budget, size, sizes.cost)[0].tolist()))


@SEARCHES.register
@dataclass(frozen=True)
class _TpeJoint(_OptunaRival):
    """Chain and curve together. samples: how many calibration samples a trial looks at."""

    name: ClassVar[str] = "tpe-joint"
    least: ClassVar[Mapping[str, float]] = {"trials": 1, "samples": 1, "startup": 1, "seed": 0}

    trials: int = 24
    samples: int = 64

    def check_budget(self, calibration: Calibration, budget: float) -> None:
        calibration.sizes.under(Chain.of("uniform")).check_budget(budget)

    def prepare(self, calibration: Calibration) -> Calibration:
        return calibration.first(self.samples)

    def measure(self, calibration: Calibration, trial: Any, budget: float) -> tuple[float, Choice]:
        chains = {str(chain): chain for chain in default_chains()}
        chain = chains[trial.suggest_categorical("chain", list(chains))]
        params, own = _suggest_steps(trial, calibration.num_layers), calibration.under(chain)
        floor = float(own.sizes.cost.lowest_fraction(own.sizes.workload).mean())
        score = _INFEASIBLE_SCORE if floor > budget else own.score(_fitted_steps(params, own.sizes, budget))
        provenance = {"chain": str(chain), "score": score, "trial": trial.number, "params": params.tolist()}
        kernel = replace(joint_kernel(), earliest_layer=chain.earliest_layer)
        planner = BudgetPlanner(static_shape(params), kernel, budget, calibration.sizes.cost, chain=chain)
        return score, Choice(provenance=provenance, planner=Pruner(chain, planner))


def _suggest_steps(trial: Any, num_layers: int) -> Tensor:
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


def _fitted_steps(params: Tensor, sizes: SampleSizes, budget: float) -> Schedule:
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
