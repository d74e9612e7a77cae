"""What runs after a search: a planner that gives every sample whole tokens within its budget."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.cost import Cost, Site, Workload, counts_for_budget
from vispco.engine.plan import TokenPlan
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

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        shapes, params = self._shapes(layout, embeddings)
        keys = list(zip(layout.num_prompt, layout.num_visual, shapes, strict=True))
        new = [place for place, key in enumerate(keys) if key not in self._known]
        if new:
            if len(self._known) > REMEMBERED:
                self._known.clear()
                new = list(range(len(keys)))
            solved = self._solve([keys[place] for place in new], params(new))
            self._known |= {keys[place]: row for place, row in zip(new, solved, strict=True)}
        return TokenPlan(torch.from_numpy(np.stack([self._known[key] for key in keys])))

    def _shapes(self, layout: TokenLayout, embeddings: Tensor) -> tuple[list[Any], Callable[[list[int]], Tensor]]:
        """What tells the shapes of the samples apart, and the parameters of some of them: [n, P]."""
        if isinstance(self.shape, AnchorChooser):
            anchors = self.shape.params
            chosen = self.shape(layout, embeddings)
            return chosen.tolist(), lambda places: anchors[torch.from_numpy(chosen[places])]
        found = self.shape(layout, embeddings).detach().double()
        params = found if found.device.type == "cpu" else found.cpu()
        return [row.tobytes() for row in params.numpy()], lambda places: params[places]

    def _solve(self, sizes: list[tuple[Any, ...]], params: Tensor) -> Array:
        text, visual = (torch.from_numpy(np.array(column)) for column in list(zip(*sizes, strict=True))[:2])
        counts = counts_for_budget(
            self.kernel,
            params,
            torch.from_numpy(np.full(len(sizes), self.budget)),
            Workload(text, visual, self.site, self.kernel.earliest_layer),
            self.cost,
            gamma=deployed_gamma(self.kernel),
            fill=self.fill,
        )
        return counts.numpy()


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
