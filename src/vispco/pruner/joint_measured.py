"""The planner of a joint search for budgets of time (`0.6t`, `40ms`) or of KV bytes (`120MB`)."""

import numpy as np
import torch
from torch import Tensor

from vispco.core.layout import TokenLayout
from vispco.cost import Budget, KvBytes
from vispco.cost.host import HostPricing
from vispco.cost.workload import Array
from vispco.engine.plan import PlanMemory, TokenPlan
from vispco.pruner.joint_planner import JointPlanner
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.measured_planner import STEPS, Priced, TimeLimits, covering_size, share_rows


class JointMeasuredPlanner:
    """Every sample gets the configuration for the share of the FLOPs that its budget comes to, solved for the budget itself.

    Bytes hold for every sample, which has a configuration of its own. Time holds for the batch: a layer takes what its longest
    row takes, and a drop wherever any sample drops. So all follow the configuration of the longest one, and keep as many
    tokens as fit into its rows beside their text.
    """

    def __init__(self, predictor: JointPredictor, budget: Budget) -> None:
        self.predictor, self.budget = predictor, budget
        self._planners: dict[int, JointPlanner] = {}
        first = self._planner(STEPS // 2)
        self.chain, self.cost = first.chain, first.cost
        self.priced = Priced(first.kernel, first.cost.dimensions)
        self._limits = TimeLimits(budget, self.priced)
        self._plans = PlanMemory()

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        plan = self._by_bytes if self.budget.kind == "bytes" else self._by_time
        return plan(layout, embeddings)

    def _as_plan(self, counts: Array, chains: Array, sizes: Array) -> TokenPlan:
        planner = self._planner(STEPS // 2)
        used, flops = planner.used, tuple(planner.reader.flops(sizes).tolist())
        groups = tuple(used.index(chain) for chain in chains.tolist()) if len(used) > 1 else None
        return TokenPlan(torch.from_numpy(counts), groups=groups, planning_flops=flops)

    def _by_bytes(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        sizes = layout.prompt_sizes
        cost, workload = KvBytes(self.cost.dimensions), self.priced.workload(sizes)
        budget = np.minimum(1.0, self.budget.amount / HostPricing(cost, workload).divisor)
        planner = self._planner(self.priced.step(budget, workload, cost))
        choice = planner.choose_batch(layout, embeddings)
        return self._as_plan(planner.solve(sizes, choice.anchor, budget, cost, self.budget), choice.chain, sizes)

    def _by_time(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        sizes = tuple(map(tuple, layout.prompt_sizes.tolist()))
        longest = max(range(len(sizes)), key=lambda place: sum(sizes[place][:2]))
        rows = layout.prompt_sizes
        size = covering_size(rows)
        limit = self._limits.of(size, len(sizes), embeddings)
        planner = self._planner(limit.step)
        choice = planner.choose_batch(layout, embeddings)

        def make() -> TokenPlan:
            anchor = choice.anchor[longest : longest + 1]
            kept = planner.solve(np.array([size]), anchor, limit.share, limit.cost, self.budget)[0]
            chains = np.full(len(rows), choice.chain[longest])
            return self._as_plan(share_rows(kept, rows), chains, rows)

        return self._plans.recall((limit, sizes, int(choice.anchor[longest])), make)

    def _planner(self, step: int) -> JointPlanner:
        """The planner for a share of the FLOPs, in steps."""
        if step not in self._planners:
            self._planners[step] = JointPlanner(self.predictor, min(1.0, step / STEPS))
        return self._planners[step]
