"""The planner of a joint search: a configuration for each sample, within its budget."""

from __future__ import annotations

import torch
from torch import Tensor

from vispco.cost import Budget, BudgetLike, Workload
from vispco.engine.plan import TokenPlan
from vispco.errors import InvalidInputError
from vispco.layout import TokenLayout
from vispco.planning.configurations import Request, counts_by_chain, text_floor
from vispco.planning.joint_predictor import JointChoice, JointPredictor
from vispco.planning.mean_budget import KlCurves, fixed_price
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
            curves = self._curves(predictor.estimate_known(), self._floor(predictor.sizes))
            self.price = fixed_price(curves, self.budget.amount)

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        observation = observe(layout, embeddings)
        return self.plan(observation, self.choose(observation))

    def choose(self, observation: Observation) -> JointChoice:
        """Which configuration each sample gets, and its budget."""
        self.predictor.to(observation.visual.device)
        floor = self._floor(observation.sizes)
        estimate = self.predictor.estimate(observation).masked_fill(~self.usable(), torch.inf)
        if self.budget.is_mean:
            assert self.price is not None  # noqa: S101 - fixed when the planner was made
            budget = self._curves(estimate, floor).spend(self.price).clamp_max(self.budget.cap or 1.0)
        else:
            budget = torch.full((len(observation),), self.budget.amount, dtype=torch.float64, device=estimate.device)
        return self.predictor.choose(estimate, budget, self._floors(observation.sizes, floor).to(budget.device))

    def plan(self, observation: Observation, choice: JointChoice) -> TokenPlan:
        """Whole tokens for each sample, within its budget."""
        number = {chain: place for place, chain in enumerate(self.used)}
        groups = tuple(number[chain] for chain in choice.chain.tolist())
        sizes = observation.sizes.cpu()
        request = Request(choice.params.cpu(), choice.budget.cpu(), torch.tensor(groups), sizes[:, 0], sizes[:, 1])
        chains = [self.chains[chain] for chain in self.used]
        counts = counts_by_chain(request, chains, self.kernel, self.cost, fill=not self.predictor.config.servable)
        return TokenPlan(counts, groups=groups if len(chains) > 1 else None)

    def usable(self) -> Tensor:
        """The configurations that may be used: those that are kept, of chains that share a batch. bool [K]."""
        used = torch.isin(self.predictor.chain, torch.tensor(self.used, device=self.predictor.chain.device))
        usable: Tensor = self.predictor.kept & used
        return usable

    def _curves(self, estimate: Tensor, floor: Tensor) -> KlCurves:
        inside = self.usable()
        return KlCurves.of(estimate[:, inside], self.predictor.level[inside], floor, self.budget.cap or 1.0)

    def _floor(self, sizes: Tensor) -> Tensor:
        """What samples of these sizes [B, 2] cost without visual tokens, as a fraction: float64 [B]."""
        return text_floor(sizes[:, 0].cpu(), sizes[:, 1].cpu(), self.cost)

    def _floors(self, sizes: Tensor, floor: Tensor) -> Tensor:
        """Of each sample, what it spends at least with text alone, and under each chain: float64 [B, 1 + chains]."""
        text, visual, num_layers = sizes[:, 0].cpu(), sizes[:, 1].cpu(), self.cost.num_layers
        loads = [Workload(text, visual, chain.sites(num_layers), chain.earliest_layer) for chain in self.chains]
        return torch.stack([floor, *(self.cost.lowest_fraction(load).double() for load in loads)], dim=-1)

    def _used_chains(self) -> list[int]:
        """Numbers of the chains that are used, of one kind of site (that of most configurations)."""
        places = self.predictor.kept.nonzero()[:, 0]
        numbers = sorted({int(self.predictor.chain[place]) for place in places})
        kinds: dict[frozenset[str], list[int]] = {}
        for number in numbers:
            kinds.setdefault(frozenset(s.site for s in self.chains[number].scorers), []).append(number)
        return max(kinds.values(), key=len)
