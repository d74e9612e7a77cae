"""What runs after a search: a planner that gives every sample whole tokens within its budget."""

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
from vispco.pruner.anchor_chooser import AnchorChooser
from vispco.pruner.found_shape import deployed_gamma
from vispco.pruner.observation import MAX_TEXT, observe
from vispco.pruner.predictor import Predictor
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under

Shape = Callable[[TokenLayout, Tensor], Tensor]
"""(layout, embeddings [B, N, D]) -> kernel parameters [B, P]."""
MAX_CACHED_PLANS = 1 << 16
"""How many plans are remembered at most."""


class BudgetPlanner:
    """The engine's `Planner` for one budget: the shape's parameters, moved so that F <= B for **every** sample.

    The budget holds for the prompt: answer tokens that stand in the batch (teacher forcing) are not counted. What was solved
    once for a size and a shape is remembered. chain: who chooses, and is paid for; without one, choosing is free.
    """

    def __init__(
        self,
        shape: Shape | AnchorChooser,
        kernel: Kernel,
        budget: float,
        cost: Cost,
        *,
        chain: Chain | None = None,
        fill: bool = True,
    ) -> None:
        self.shape, self.kernel, self.budget, self.cost, self.fill = shape, kernel, budget, cost, fill
        self.chain = chain
        self._known: dict[tuple[Any, ...], Array] = {}
        self._plans = PlanMemory()
        self._curves = self._movable(shape.params) if isinstance(shape, AnchorChooser) else None

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        curves, rows, shapes = self._shapes(layout, embeddings)
        keys = tuple(zip(map(tuple, layout.prompt_sizes.tolist()), shapes, strict=True))
        return self._plans.recall(keys, lambda: self._plan(keys, curves, rows))

    def _plan(self, keys: Sequence[tuple[Any, ...]], curves: MovableCurves | Tensor, rows: Array) -> TokenPlan:
        new = [place for place, key in enumerate(keys) if key not in self._known]
        if new:
            if len(self._known) > MAX_CACHED_PLANS:
                self._known.clear()
                new = list(range(len(keys)))
            curves = self._movable(curves) if isinstance(curves, Tensor) else curves
            solved = self._solve([keys[place] for place in new], curves, rows[new])
            self._known |= {keys[place]: row for place, row in zip(new, solved, strict=True)}
        flops = tuple(self._planning_flops(np.array([sizes for sizes, _ in keys])).tolist())
        return TokenPlan(torch.from_numpy(np.stack([self._known[key] for key in keys])), planning_flops=flops)

    def _shapes(self, layout: TokenLayout, embeddings: Tensor) -> tuple[MovableCurves | Tensor, Array, list[Any]]:
        """Curves, or their parameters [n, P]; which of them each sample has; and what tells them apart."""
        if isinstance(self.shape, AnchorChooser):
            assert self._curves is not None  # noqa: S101 - made with the planner
            chosen = self.shape(layout, embeddings)
            return self._curves, chosen, chosen.tolist()
        found = self.shape(layout, embeddings).detach().double()
        params = found if found.device.type == "cpu" else found.cpu()
        return params, np.arange(len(params)), [row.tobytes() for row in params.numpy()]

    def _movable(self, params: Tensor) -> MovableCurves:
        return MovableCurves(self.kernel, params, self.cost.num_layers, gamma=deployed_gamma(self.kernel))

    def _solve(self, keys: list[tuple[Any, ...]], curves: MovableCurves, rows: Array) -> Array:
        sizes = np.array([own for own, _ in keys])
        columns = [torch.from_numpy(np.ascontiguousarray(column)) for column in sizes.T]
        planning = torch.from_numpy(self._planning_flops(sizes))
        if self.chain is None:
            text, visual, _, read = columns
            first = self.kernel.earliest_layer
            load = Workload(text, visual, earliest_layer=first, num_read=read, planning_flops=planning)
        else:
            load = workload_under(self.chain, self.cost.dimensions, *columns, planning_flops=planning)
        return curves.counts(rows, np.full(len(keys), self.budget), load, self.cost, fill=self.fill)

    def _planning_flops(self, sizes: Array) -> Array:
        """Of samples [B, 4]: int64 [B]."""
        count = getattr(self.shape, "flops", None)
        return np.zeros(len(sizes), dtype=np.int64) if count is None else np.asarray(count(sizes), dtype=np.int64)


def static_shape(params: Tensor) -> Shape:
    """One shape [P] for every sample."""
    return lambda layout, _: params.expand(layout.batch_size, -1)


class PredictedShape:
    """The shape of each sample that a predictor foretells for a budget."""

    def __init__(self, predictor: Predictor, budget: float) -> None:
        self.predictor, self.budget = predictor, budget

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> Tensor:
        self.predictor.to(embeddings.device)
        budgets = torch.full((layout.batch_size,), self.budget, device=embeddings.device)
        params: Tensor = self.predictor(observe(layout, embeddings), budgets).params
        return params

    def flops(self, sizes: Array) -> Array:
        """FLOPs of one prediction for samples [B, 2 or more] of so many text and visual tokens: int64 [B]."""
        return np.array([self.predictor.flops(min(text, MAX_TEXT)) for text in sizes[:, 0].tolist()], dtype=np.int64)


def predicted_shape(predictor: Predictor, budget: float) -> PredictedShape | AnchorChooser:
    """A shape of each sample's own."""
    return AnchorChooser.of(predictor, budget) or PredictedShape(predictor, budget)
