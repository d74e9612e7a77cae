"""What runs after a search: a planner that gives every sample whole tokens within its budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.cost import Cost, MovableCurves, Site, Workload
from vispco.engine.plan import PlanMemory, TokenPlan
from vispco.kernels import Kernel
from vispco.layout import Array, TokenLayout
from vispco.planning.anchor_chooser import AnchorChooser
from vispco.planning.found_shape import deployed_gamma
from vispco.planning.observation import observe
from vispco.planning.predictor import Predictor

Shape = Callable[[TokenLayout, Tensor], Tensor]
"""(layout, embeddings [B, N, D]) -> kernel parameters [B, P]."""
REMEMBERED = 1 << 16
"""How many plans are remembered at most."""


class BudgetPlanner:
    """The engine's `Planner` for one budget: the shape's parameters, moved so that F <= B for **every** sample.

    The budget holds for the prompt: answer tokens that stand in the batch (teacher forcing) are not counted. What was solved
    once for a size and a shape is remembered.
    """

    def __init__(
        self,
        shape: Shape | AnchorChooser,
        kernel: Kernel,
        budget: float,
        cost: Cost,
        *,
        site: Site | tuple[Site, ...] = "entry",
        fill: bool = True,
    ) -> None:
        self.shape, self.kernel, self.budget, self.cost, self.site, self.fill = shape, kernel, budget, cost, site, fill
        self._known: dict[tuple[Any, ...], Array] = {}
        self._plans = PlanMemory()
        self._curves = self._movable(shape.params) if isinstance(shape, AnchorChooser) else None

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        curves, rows, shapes = self._shapes(layout, embeddings)
        keys = tuple(zip(layout.num_prompt, layout.num_visual, shapes, strict=True))
        return self._plans.recall(keys, lambda: self._plan(keys, curves, rows))

    def _plan(self, keys: Sequence[tuple[Any, ...]], curves: MovableCurves | Tensor, rows: Array) -> TokenPlan:
        new = [place for place, key in enumerate(keys) if key not in self._known]
        if new:
            if len(self._known) > REMEMBERED:
                self._known.clear()
                new = list(range(len(keys)))
            curves = self._movable(curves) if isinstance(curves, Tensor) else curves
            solved = self._solve([keys[place] for place in new], curves, rows[new])
            self._known |= {keys[place]: row for place, row in zip(new, solved, strict=True)}
        return TokenPlan(torch.from_numpy(np.stack([self._known[key] for key in keys])))

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

    def _solve(self, sizes: list[tuple[Any, ...]], curves: MovableCurves, rows: Array) -> Array:
        text, visual = (torch.from_numpy(np.array(column)) for column in list(zip(*sizes, strict=True))[:2])
        workload = Workload(text, visual, self.site, self.kernel.earliest_layer)
        return curves.counts(rows, np.full(len(sizes), self.budget), workload, self.cost, fill=self.fill)


def static_shape(params: Tensor) -> Shape:
    """One shape [P] for every sample."""
    return lambda layout, _: params.expand(layout.batch_size, -1)


def predicted_shape(predictor: Predictor, budget: float) -> Shape | AnchorChooser:
    """A shape of each sample's own."""
    chooser = AnchorChooser.of(predictor, budget)
    if chooser is not None:
        return chooser

    def shape(layout: TokenLayout, embeddings: Tensor) -> Tensor:
        predictor.to(embeddings.device)
        budgets = torch.full((layout.batch_size,), budget, device=embeddings.device)
        params: Tensor = predictor(observe(layout, embeddings), budgets).params
        return params

    return shape
