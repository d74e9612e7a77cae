"""Planners of one chain: whole tokens within its budget for every sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.core.layout import Array, TokenLayout
from vispco.cost import Cost, MovableCurves, Workload
from vispco.engine.plan import PlanMemory, TokenPlan
from vispco.kernels import Kernel
from vispco.pruner.found_shape import deployed_gamma
from vispco.pruner.observation import MAX_TEXT, observe
from vispco.pruner.predictor import Predictor
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under

Shape = Callable[[TokenLayout, Tensor], Tensor]
"""(layout, embeddings [B, N, D]) -> kernel parameters [B, P]."""
_MAX_CACHED_PLANS = 1 << 16


class BudgetPlanner:
    """The engine's `Planner` for one budget: the shape's parameters, moved so that F <= B for **every** sample.

    The budget holds for the prompt: answer tokens that stand in the batch (teacher forcing) are not counted. What was solved
    once for a size and a shape is cached. chain: its scoring is paid for; without one, choosing is free.
    """

    def __init__(
        self, shape: Shape, kernel: Kernel, budget: float, cost: Cost, *, chain: Chain | None = None, fill: bool = True
    ) -> None:
        self.shape, self.kernel, self.budget, self.cost, self.fill = shape, kernel, budget, cost, fill
        self.chain = chain
        self._solved: dict[tuple[Any, ...], Array] = {}
        self._plans = PlanMemory()

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        found = self.shape(layout, embeddings).detach().double()
        params = found if found.device.type == "cpu" else found.cpu()
        keys = tuple(
            (*size, row.tobytes()) for size, row in zip(layout.prompt_sizes.tolist(), params.numpy(), strict=True)
        )
        return self._plans.recall(keys, lambda: self._plan(keys, params, layout.prompt_sizes))

    def _plan(self, keys: Sequence[tuple[Any, ...]], params: Tensor, sizes: Array) -> TokenPlan:
        new = [row for row, key in enumerate(keys) if key not in self._solved]
        if new:
            if len(self._solved) > _MAX_CACHED_PLANS:
                self._solved.clear()
                new = list(range(len(keys)))
            self._solved |= dict(zip([keys[row] for row in new], self._solve(params[new], sizes[new]), strict=True))
        flops = tuple(self._planning_flops(sizes).tolist())
        return TokenPlan(torch.from_numpy(np.stack([self._solved[key] for key in keys])), planning_flops=flops)

    def _solve(self, params: Tensor, sizes: Array) -> Array:
        """Whole tokens [n, L] of shapes [n, P] for samples of sizes [n, 4]."""
        columns = [torch.from_numpy(np.ascontiguousarray(column)) for column in sizes.T]
        planning = torch.from_numpy(self._planning_flops(sizes))
        if self.chain is None:
            text, visual, _, read = columns
            first = self.kernel.earliest_layer
            load = Workload(text, visual, earliest_layer=first, num_read=read, planning_flops=planning)
        else:
            load = workload_under(self.chain, self.cost.dimensions, *columns, planning_flops=planning)
        curves = MovableCurves(self.kernel, params, self.cost.num_layers, gamma=deployed_gamma(self.kernel))
        budget = np.full(len(sizes), self.budget)
        return curves.counts(np.arange(len(sizes)), budget, load, self.cost, fill=self.fill)

    def _planning_flops(self, sizes: Array) -> Array:
        """Of samples [B, 4]: int64 [B]."""
        count = getattr(self.shape, "flops", None)
        return np.zeros(len(sizes), dtype=np.int64) if count is None else np.asarray(count(sizes), dtype=np.int64)


def static_shape(params: Tensor) -> Shape:
    """One shape [P] for every sample."""
    return lambda layout, _: params.expand(layout.batch_size, -1)


class PredictedShape:
    """The shape that a predictor gives each sample for a budget."""

    def __init__(self, predictor: Predictor, budget: float) -> None:
        self.predictor, self.budget = predictor, budget

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> Tensor:
        self.predictor.to(embeddings.device)
        budgets = torch.full((layout.batch_size,), self.budget, device=embeddings.device)
        params: Tensor = self.predictor(observe(layout, embeddings), budgets)
        return params

    def flops(self, sizes: Array) -> Array:
        """FLOPs of one prediction for samples [B, 2 or more] with these numbers of text and visual tokens: int64 [B]."""
        return np.array([self.predictor.flops(min(text, MAX_TEXT)) for text in sizes[:, 0].tolist()], dtype=np.int64)
