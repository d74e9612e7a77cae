"""The planner of a joint search for budgets of time (`0.6t`, `40ms`) or of KV bytes (`120MB`)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vispco.cost import Budget, KvBytes
from vispco.cost.host import Array, HostPricing
from vispco.engine.plan import TokenPlan
from vispco.layout import TokenLayout
from vispco.planning.joint_planner import JointPlanner
from vispco.planning.joint_predictor import JointPredictor
from vispco.planning.measured_planner import STEPS, MeasuredCosts, Priced, beside_longest, time_share


class JointMeasuredPlanner:
    """Every sample gets the configuration for the share of the FLOPs that its budget comes to, solved for the budget itself.

    Bytes hold for every sample, which has a configuration of its own. Time holds for the batch: it takes what its longest
    sample takes at each layer and a drop wherever any of them drops. So all follow the configuration of the longest one, and
    the others keep as many tokens as fit beside it.
    """

    def __init__(self, predictor: JointPredictor, budget: Budget) -> None:
        self.predictor, self.budget = predictor, budget
        self._planners: dict[int, JointPlanner] = {}
        first = self._planner(STEPS // 2)
        self.chain, self.cost = first.chain, first.cost
        self.priced = Priced(first.kernel, first.cost.dimensions)
        self.costs = MeasuredCosts(first.cost.dimensions)

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        sizes = np.stack([layout.num_prompt, layout.num_visual], axis=1)
        plan = self._by_bytes if self.budget.kind == "bytes" else self._by_time
        counts, chains = plan(sizes, layout, embeddings)
        used = self._planner(STEPS // 2).used
        groups = tuple(used.index(chain) for chain in chains.tolist())
        return TokenPlan(torch.from_numpy(counts), groups=groups if len(used) > 1 else None)

    def _by_bytes(self, sizes: Array, layout: TokenLayout, embeddings: Tensor) -> tuple[Array, Array]:
        cost, workload = KvBytes(self.cost.dimensions), self.priced.workload(*sizes.T)
        budget = np.minimum(1.0, self.budget.amount / HostPricing(cost, workload).divisor)
        planner = self._planner(self.priced.step(budget, workload, cost))
        choice = planner.choose_batch(layout, embeddings)
        return planner.solve(sizes, choice.anchor, budget, cost), choice.chain

    def _by_time(self, sizes: Array, layout: TokenLayout, embeddings: Tensor) -> tuple[Array, Array]:
        cost = self.costs.at(layout.batch_size, embeddings)
        longest = int(sizes.sum(axis=1).argmax())
        own = sizes[longest : longest + 1]
        workload = self.priced.workload(*own.T)
        budget = time_share(self.budget, workload, cost)
        planner = self._planner(self.priced.step(budget, workload, cost))
        choice = planner.choose_batch(layout, embeddings)
        anchor, chain = choice.anchor[longest : longest + 1], choice.chain[longest]
        kept = planner.solve(own, anchor, budget, cost)[0]
        counts = beside_longest(kept, sizes, longest)
        return counts, np.full(len(sizes), chain)

    def _planner(self, step: int) -> JointPlanner:
        """The planner for a share of the FLOPs, in steps."""
        if step not in self._planners:
            self._planners[step] = JointPlanner(self.predictor, min(1.0, step / STEPS))
        return self._planners[step]
