"""What runs after a search: a planner that gives every sample whole tokens within its budget."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from vispco.cost import Cost, Site, Workload, counts_for_budget
from vispco.engine.plan import TokenPlan
from vispco.kernels import Kernel
from vispco.layout import TokenLayout
from vispco.planning.found_shape import deployed_gamma
from vispco.planning.observation import observe
from vispco.planning.predictor import Predictor

Shape = Callable[[TokenLayout, Tensor], Tensor]
"""(layout, embeddings [B, N, D]) -> kernel parameters [B, P]."""


class BudgetPlanner:
    """The engine's `Planner` for one budget: the shape's parameters, moved so that F <= B for **every** sample.

    The budget holds for the prompt: answer tokens that stand in the batch (teacher forcing) are not counted.
    """

    def __init__(
        self,
        shape: Shape,
        kernel: Kernel,
        budget: float,
        cost: Cost,
        *,
        site: Site | tuple[Site, ...] = "entry",
        fill: bool = True,
    ) -> None:
        self.shape, self.kernel, self.budget, self.cost, self.site, self.fill = shape, kernel, budget, cost, site, fill

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        positions = torch.arange(layout.length, device=layout.visual.device)
        asked = layout.real & ~layout.visual & (positions <= layout.query[:, None])
        text, visual = asked.sum(-1).cpu(), torch.tensor(layout.num_visual)
        budgets = torch.full(text.shape, self.budget, dtype=torch.float64)
        params = self.shape(layout, embeddings).cpu()
        counts = counts_for_budget(
            self.kernel,
            params,
            budgets,
            Workload(text, visual, self.site, self.kernel.earliest_layer),
            self.cost,
            gamma=deployed_gamma(self.kernel),
            fill=self.fill,
        )
        return TokenPlan(counts)


def static_shape(params: Tensor) -> Shape:
    """One shape [P] for every sample."""
    return lambda layout, _: params.expand(layout.batch_size, -1)


def predicted_shape(predictor: Predictor, budget: float) -> Shape:
    """A shape of each sample's own."""

    def shape(layout: TokenLayout, embeddings: Tensor) -> Tensor:
        predictor.to(embeddings.device)
        budgets = torch.full((layout.batch_size,), budget, device=embeddings.device)
        params: Tensor = predictor(observe(layout, embeddings), budgets).params
        return params

    return shape
