"""The planners of a joint search: a configuration for each sample, within its budget of FLOPs, time (`0.6t`, `40ms`) or bytes (`120MB`)."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.cost import Budget, BudgetLike, Cost, Exact, MovableCurves, Workload
from vispco.cost.host import HostPricing, as_array
from vispco.cost.workload import Array
from vispco.engine.plan import PlanMemory, TokenPlan
from vispco.pruner.budget_planner import RowMemory, SampleBudgets, deployed_gamma
from vispco.pruner.configurations import level_of, nearest_level, text_floor
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.kernel_regression import BatchRegression
from vispco.pruner.mean_budget import KlCurves, MeanController, MultiplierBracket, MultiplierLadder, solve_multiplier
from vispco.pruner.measured_planner import STEPS, MeasuredPlanner
from vispco.pruner.observation import Observation
from vispco.scorers import MixedChain
from vispco.scorers.cost import ChainScoring, workload_under
from vispco.scorers.mixture import batch_kind

_NO_CONFIGURATION = 10.0  # the loss of a level that a kind of chains has none for; more than any


@dataclass(frozen=True, eq=False)
class JointChoice:
    """For each sample, on the host: anchor int64 [B], the number of its configuration; budget [B]."""

    anchor: Array
    budget: Array


class JointPlanner:
    """The engine's `Planner` for one budget. Every sample follows one of `chain`'s chains.

    What a sample resembles is read on its device and brought to the host once; the rest is arithmetic there, and what was
    solved for a size and a configuration is remembered.
    budget: a fraction of the FLOPs, which holds for every sample, or a mean of which the cap does (`mean:0.2,max:0.5`).
    controller: keeps the mean while the traffic changes; then a plan depends on the inputs before it. None: on the input alone.
    all_levels: use the chains that are best over all levels, also for a hard budget; then planners of all budgets use the same.
    """

    def __init__(
        self,
        predictor: JointPredictor,
        budget: BudgetLike,
        controller: MeanController | None = None,
        *,
        all_levels: bool = False,
    ) -> None:
        self.predictor, self.budget = predictor, Budget.of(budget)
        self.cost, self.kernel, self.known = predictor.make_cost(), predictor.kernel, predictor.configurations
        if self.budget.kind == "prefill":  # FLOPs beside the tower's are exact ones
            self.cost = Exact(self.cost.dimensions)
        self._budgets = SampleBudgets(self.budget, self.cost)
        self.chains, self._level, self._chain = (
            self.known.chains,
            as_array(self.known.level),
            as_array(self.known.chain),
        )
        self.used = self._used_chains(all_levels or self.budget.is_mean)
        self.chain = MixedChain.of_chains([self.chains[number] for number in self.used])
        self.reader = BatchRegression(predictor.memory)
        gamma = deployed_gamma(self.kernel)
        self.curves = MovableCurves(self.kernel, self.known.params, self.cost.num_layers, gamma=gamma)
        # bool [K], the configurations that may be used: those that are kept, of chains that share a batch
        self.usable: Array = as_array(predictor.kept) & np.isin(self._chain, self.used)
        self._floors, self._solved, self._plans = RowMemory(), RowMemory(), PlanMemory()
        self._spent: WeakKeyDictionary[TokenPlan, Array] = WeakKeyDictionary()
        self.multiplier: MultiplierBracket | None = None
        self.controller = controller if self.budget.is_mean else None
        self._ladder: MultiplierLadder | None = None
        if self.budget.is_mean:
            curves, realised = self._calibration()
            self.multiplier = solve_multiplier(curves, self.budget.amount, realised)
            self._ladder = MultiplierLadder.of(curves, self.multiplier, self.budget.amount)

    @property
    def uncontrolled(self) -> JointPlanner:
        """The same without a controller, for evaluations, whose results do not depend on the order of items."""
        if self.controller is None:
            return self
        same = copy(self)
        same.controller = None
        return same

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        if self.controller is None:
            return self._plan(layout.prompt_sizes, self.choose_batch(layout, embeddings))
        # A plan by the price that the inputs before have left; inputs without a picture do not take part.
        assert self._ladder is not None  # noqa: S101 - made with the mean budget
        sizes = layout.prompt_sizes
        usable = np.where(self.usable, self.reader.estimate(layout, embeddings), np.inf)
        floors, seen = self._lowest(sizes), sizes[:, 1] > 0
        spend = self._ladder.spend(self._curves(usable, floors[:, 0]))
        given = spend[:, self._ladder.place].copy()
        given[seen] = self.controller.budgets(self._ladder, spend[seen])
        budget = np.minimum(given, self.budget.cap or 1.0)
        anchor = self.known.best(usable, budget, floors)
        plan = self._plan(sizes, JointChoice(anchor, budget))
        # What the samples of a plan spend, as fractions: [B]. Plans come again, and are the same objects then.
        if plan not in self._spent:
            self._spent[plan] = self._fractions(sizes, anchor, plan.counts.numpy())
        self.controller.settle(given[seen], self._spent[plan][seen])
        return plan

    def choose_batch(self, layout: TokenLayout, embeddings: Tensor) -> JointChoice:
        """`choose` of what the engine sees, in a few operations. embeddings: [B, N, D]."""
        return self._choose(layout.prompt_sizes, self.reader.estimate(layout, embeddings), self._budgets(layout))

    def choose(self, observation: Observation) -> JointChoice:
        """Which configuration each sample gets, and its budget."""
        if self.budget.kind == "prefill":
            raise InvalidInputError(
                f"The budget {self.budget} was given, and an observation does not tell what its vision tower takes. Give a "
                "budget of the language model, such as 0.4."
            )
        self.predictor.to(observation.visual.device)
        sizes = as_array(observation.sizes)
        budget = np.full(len(sizes), self.budget.amount)
        return self._choose(sizes, as_array(self.predictor.estimate(observation)), budget)

    def plan(self, observation: Observation, choice: JointChoice) -> TokenPlan:
        """Whole tokens for each sample, within its budget."""
        return self._plan(as_array(observation.sizes), choice)

    def _choose(self, sizes: Array, estimate: Array, budget: Array) -> JointChoice:
        """sizes: int64 [B, 4], see `TokenLayout.prompt_sizes`. estimate: [B, K], the KL of each configuration. budget: [B]."""
        floors = self._lowest(sizes)
        estimate = np.where(self.usable, estimate, np.inf)
        if self.multiplier is not None:
            spent = self._curves(estimate, floors[:, 0]).spend(self.multiplier)
            budget = np.minimum(spent, self.budget.cap or 1.0)
        return JointChoice(self.known.best(estimate, budget, floors), budget)

    def _plan(self, sizes: Array, choice: JointChoice) -> TokenPlan:
        keys = tuple(zip(*sizes.T.tolist(), choice.anchor.tolist(), choice.budget.tolist(), strict=True))

        def solve(places: list[int]) -> Array:
            return self.solve(sizes[places], choice.anchor[places], choice.budget[places], self.cost)

        return self._plans.recall(keys, lambda: self.as_plan(self._solved.rows(keys, solve), choice.anchor, sizes))

    def as_plan(self, counts: Array, anchor: Array, sizes: Array) -> TokenPlan:
        """Whole tokens [B, L] of samples [B, 4], each under the chain of its configuration [B]."""
        chains = self._chain[anchor].tolist()
        groups = tuple(self.used.index(chain) for chain in chains) if len(self.used) > 1 else None
        flops = tuple(self.reader.flops(sizes).tolist())
        return TokenPlan(torch.from_numpy(counts), groups=groups, planning_flops=flops)

    def solve(self, sizes: Array, anchor: Array, budget: Array, cost: Cost, asked: Budget | None = None) -> Array:
        """Whole tokens [n, L] of configurations [n] at fractions [n] of a cost, for the layers that their chains may prune.

        asked: see `vispco.cost.counts_for_budget`.
        """
        counts, chains = np.empty((len(sizes), cost.num_layers), dtype=np.int64), self._chain[anchor]
        for number in np.unique(chains).tolist():
            rows = np.flatnonzero(chains == number)
            size = self._workload(number, sizes[rows])
            fill = not self.predictor.config.servable
            counts[rows] = self.curves.counts(anchor[rows], budget[rows], size, cost, fill=fill, asked=asked)
        return counts

    def _workload(self, chain: int, samples: Array | Workload) -> Workload:
        """Samples [n, 4], or those of a workload, that follow one of the chains, with what this planner itself takes."""
        own, size = self.chains[chain], self.cost.dimensions
        if not isinstance(samples, Workload):
            columns = (torch.from_numpy(np.ascontiguousarray(column)) for column in samples.T)
            planning = torch.from_numpy(self.reader.flops(samples))
            samples = workload_under(own, size, *columns, planning_flops=planning)
        reads = self.chain.needs_vision  # of all chains: the tower is read before a sample's own is known
        site, first = own.sites(size.num_layers), own.earliest_layer
        return replace(samples, site=site, earliest_layer=first, scoring=ChainScoring(own, size, reads))

    def _calibration(self) -> tuple[KlCurves, Callable[[Array], Array]]:
        """The curves of the calibration samples, each estimated from the others, and what they spend of budgets [M]: [M]."""
        sizes, estimate = self.predictor.sizes.cpu(), as_array(self.predictor.estimate())
        floor, asked = text_floor(sizes[:, 0], sizes[:, 1], self.cost), as_array(sizes)

        def realised(budget: Array) -> Array:
            anchor = self.known.best(np.where(self.usable, estimate, np.inf), budget, self._lowest(asked))
            return self._fractions(asked, anchor, self.solve(asked, anchor, budget, self.cost))

        return self._curves(estimate, as_array(floor)), realised

    def _fractions(self, sizes: Array, anchor: Array, counts: Array) -> Array:
        """What samples [n, 4] spend whose layers process so many tokens [n, L], as fractions of the unpruned model: [n]."""
        spent = np.empty(len(sizes))
        for number in np.unique(self._chain[anchor]).tolist():
            rows = np.flatnonzero(self._chain[anchor] == number)
            load = self._workload(number, sizes[rows])
            spent[rows] = as_array(self.cost.bill(torch.from_numpy(counts[rows]), load) / self.cost.full(load))
        return spent

    def _curves(self, estimate: Array, floor: Array) -> KlCurves:
        return KlCurves.of(estimate[:, self.usable], self._level[self.usable], floor, self.budget.cap or 1.0)

    def _lowest(self, sizes: Array) -> Array:
        """Of each sample, what it spends at least with text alone, and under each chain: float64 [B, 1 + chains]."""

        def make(places: list[int]) -> Array:
            load = self._workload(0, sizes[places])
            first = HostPricing(self.cost, load)
            text_alone = Workload(load.num_text, load.num_visual, "entry", 0, num_shown=load.full(1)[..., 0])
            plain = [chain.with_compensation(0.0) for chain in self.chains]  # chains that differ in it cost the same
            loads = {chain: self._workload(plain.index(chain), load) for chain in dict.fromkeys(plain)}
            lowest = {chain: HostPricing(self.cost, own, first).lowest for chain, own in loads.items()}
            return np.stack([HostPricing(self.cost, text_alone).lowest, *(lowest[each] for each in plain)], axis=1)

        return self._floors.rows(list(map(tuple, sizes.tolist())), make)

    def _used_chains(self, all_levels: bool) -> list[int]:
        """Numbers of the chains that are used, of one kind that shares a batch: the one with the least loss.

        A hard budget is served by the levels near it; for a mean, a kind must have configurations at as many levels as any.
        """
        loss = as_array(self.predictor.memory.kl.mean(0))
        served = dict.fromkeys(self.known.levels, 1)
        if not all_levels and self.budget.kind == "flops":
            sizes = self.predictor.sizes.cpu()
            floor = text_floor(sizes[:, 0], sizes[:, 1], self.cost)
            nearest = nearest_level(level_of(self.budget.amount, floor), self.known.levels)
            served = {level: int((nearest == level).sum()) for level in self.known.levels}
        numbers: dict[object, set[int]] = {}
        least: dict[object, dict[float, float]] = {}
        for place in np.flatnonzero(as_array(self.predictor.kept)).tolist():
            number, level = int(self._chain[place]), float(self._level[place])
            kind = batch_kind(self.chains[number])
            numbers.setdefault(kind, set()).add(number)
            own = least.setdefault(kind, {})
            own[level] = min(own.get(level, np.inf), float(loss[place]))
        lost = {
            kind: sum(count * own.get(level, _NO_CONFIGURATION) for level, count in served.items())
            for kind, own in least.items()
        }
        return sorted(numbers[min(lost, key=lambda kind: lost[kind])])


class JointMeasuredPlanner(MeasuredPlanner):
    """Every sample gets the configuration for the share of the FLOPs that its budget comes to, solved for the budget itself.

    Where time holds for the batch, a drop takes time wherever any sample drops: so all follow the configuration of the longest.
    """

    def __init__(self, predictor: JointPredictor, budget: Budget) -> None:
        dimensions = predictor.make_cost().dimensions
        super().__init__(budget, partial(JointPlanner, predictor, all_levels=True), predictor.kernel, dimensions)
        self._first: JointPlanner = self._at(STEPS // 2)
        self.chain = self._first.chain

    def _choose(self, step: int, layout: TokenLayout, embeddings: Tensor) -> Array:
        """The configuration of each sample: int64 [B]."""
        planner: JointPlanner = self._at(step)
        return planner.choose_batch(layout, embeddings).anchor

    def _solve(self, step: int, chosen: Array, sizes: Array, share: Array, cost: Cost) -> Array:
        planner: JointPlanner = self._at(step)
        return planner.solve(sizes, chosen, share, cost, self.budget)

    def _as_plan(self, counts: Array, chosen: Array, sizes: Array) -> TokenPlan:
        return self._first.as_plan(counts, chosen, sizes)
