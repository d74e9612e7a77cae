"""The planner of a joint search: a configuration for each sample, within its budget."""

from __future__ import annotations

import torch
from torch import Tensor

from vispco.cost import Budget, BudgetLike
from vispco.engine.plan import TokenPlan
from vispco.errors import InvalidInputError
from vispco.layout import TokenLayout
from vispco.planning.configurations import Request, counts_by_chain, nearest_level
from vispco.planning.joint_predictor import JointChoice, JointPredictor
from vispco.planning.mean_budget import KlCurves, fixed_price, floors
from vispco.planning.observation import Observation, observe
from vispco.scorers import MixedChain


class JointPlanner:
    """The engine's `Planner` for one budget. Every sample follows one of `chain`'s chains.

    budget: a fraction of the FLOPs, which holds for every sample, or a mean of which the cap does (`mean:0.2,max:0.5`).
    """

    def __init__(self, predictor: JointPredictor, budget: BudgetLike) -> None:
        self.predictor, self.budget = predictor, Budget.of(budget)
        if self.budget.kind != "flops":
            raise InvalidInputError(
                f"The budget {self.budget} was given. A joint search plans by FLOPs: give 0.5, 50% or mean:0.2,max:0.5."
            )
        self.cost, self.kernel, self.chains = predictor.make_cost(), predictor.kernel, predictor.chains
        self.used = self._used_chains()
        self.chain = MixedChain.of_chains([self.chains[number] for number in self.used])
        self.price: float | None = None
        if self.budget.is_mean:
            floor = floors(predictor.sizes, self.cost, self.chain.earliest_layer)
            self.price = fixed_price(self._curves(predictor.estimate_known()), floor, self.budget.amount)

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        observation = observe(layout, embeddings)
        return self.plan(observation, self.choose(observation))

    def choose(self, observation: Observation) -> JointChoice:
        """Which configuration each sample gets, and its budget."""
        self.predictor.to(observation.visual.device)
        estimate = self.predictor.estimate(observation).masked_fill(~self.usable(), torch.inf)
        if self.budget.is_mean:
            assert self.price is not None  # noqa: S101 - fixed when the planner was made
            floor = floors(observation.sizes, self.cost, self.chain.earliest_layer)
            budget = self._curves(estimate).spend(self.price, floor)
        else:
            budget = torch.full((len(observation),), self.budget.amount, dtype=torch.float64, device=estimate.device)
        return self.predictor.choose(estimate, budget)

    def plan(self, observation: Observation, choice: JointChoice) -> TokenPlan:
        """Whole tokens for each sample, within its budget."""
        number = {chain: place for place, chain in enumerate(self.used)}
        groups = tuple(number[chain] for chain in choice.chain.tolist())
        sizes = observation.sizes.cpu()
        request = Request(choice.params.cpu(), choice.budget.cpu(), torch.tensor(groups), sizes[:, 0], sizes[:, 1])
        chains = [self.chains[chain] for chain in self.used]
        counts = counts_by_chain(request, chains, self.kernel, self.cost, fill=not self.predictor.config.servable)
        return TokenPlan(counts, groups=groups if len(chains) > 1 else None)

    def _curves(self, estimate: Tensor) -> KlCurves:
        cap = self.budget.cap or 1.0
        inside = self.usable()
        return KlCurves.of(estimate[:, inside], self.predictor.level[inside], cap)

    def usable(self) -> Tensor:
        """The configurations that this budget may use: those that are kept, of chains that share a batch. bool [K]."""
        used = torch.isin(self.predictor.chain, torch.tensor(self.used, device=self.predictor.chain.device))
        among: Tensor = self.predictor.kept & used & self._in_reach()
        return among

    def _in_reach(self) -> Tensor:
        """The levels that this budget may use: the nearest one of a hard budget, all up to the cap of a mean."""
        levels: Tensor = self.predictor.level
        if self.budget.is_mean:
            lowest = levels.min()
            return levels <= max(self.budget.cap or 1.0, float(lowest))
        asked = torch.tensor([self.budget.amount], device=levels.device)
        return levels == nearest_level(asked, self.predictor.configurations.levels).to(levels)[0]

    def _used_chains(self) -> list[int]:
        """Numbers of the chains that this budget may use, of one kind of site (that of most configurations)."""
        places = (self.predictor.kept & self._in_reach()).nonzero()[:, 0]
        numbers = sorted({int(self.predictor.chain[place]) for place in places})
        kinds: dict[frozenset[str], list[int]] = {}
        for number in numbers:
            kinds.setdefault(frozenset(s.site for s in self.chains[number].scorers), []).append(number)
        return max(kinds.values(), key=len)
