"""Published methods on a model: a pruner, and its token plans for samples of any size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from vispco import cost as costs
from vispco.cost import Cost, Workload
from vispco.engine.plan import TokenPlan
from vispco.errors import InvalidInputError
from vispco.layout import TokenLayout
from vispco.presets.preset import Preset, parse
from vispco.pruner import Pruner


class PresetPlanner:
    """The engine's `Planner` of a method: its published setting, or scaled to a budget that holds for every sample.

    cost: prices the budget; without a budget it only says how many layers there are. The budget is about the prompt: answer
    tokens that stand in the batch (teacher forcing) are not counted.
    """

    def __init__(self, preset: Preset, cost: Cost, *, setting: str | None = None, budget: float | None = None) -> None:
        if budget is not None and not 0.0 < budget <= 1.0:
            raise InvalidInputError(
                f"budget={budget} was given. It is a fraction of the unpruned cost: above 0, up to 1."
            )
        self.preset, self.cost, self.setting, self.budget = preset, cost, setting, budget
        self._site = preset.chain_for(cost.num_layers, setting).sites(cost.num_layers)
        self._known: dict[tuple[int, int], Tensor] = {}

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:  # noqa: ARG002
        if self.budget is None:
            layers = self.cost.num_layers
            return TokenPlan(self.preset.schedule(layers, layout.num_visual, self.setting).counts(layout.num_visual))
        positions = torch.arange(layout.length, device=layout.visual.device)
        asked = layout.real & ~layout.visual & (positions <= layout.query[:, None])
        texts: list[int] = asked.sum(-1).tolist()
        return TokenPlan(torch.stack([self.counts(*size) for size in zip(texts, layout.num_visual, strict=True)]))

    def counts(self, num_text: int, num_visual: int) -> Tensor:
        """Whole tokens [L] of a sample of one size; those of a size are computed once."""
        if (num_text, num_visual) not in self._known:
            size = Workload([num_text], [num_visual], self._site)
            budget = 1.0 if self.budget is None else self.budget
            self._known[num_text, num_visual] = self.preset.counts_at_budget(budget, self.cost, size, self.setting)[0]
        return self._known[num_text, num_visual]


def pruner(
    method: str | Preset, config: Any, *, budget: float | None = None, cost: str | Cost = "exact", **options: Any
) -> Pruner:
    """A pruner that runs a method as published, or at a budget.

    method: 'pyramiddrop', with a setting 'sparsevlm:64', or a `Preset`. config: of the model, or the model itself.
    budget: a fraction of each sample's unpruned cost, met by every sample. options: of `Pruner` (`mode`, `record`).
    """
    preset, setting = (method, method.default) if isinstance(method, Preset) else parse(method)
    price = cost if isinstance(cost, Cost) else costs.get(cost, getattr(config, "config", config))
    chain = preset.chain_for(price.num_layers, setting)
    return Pruner(chain, PresetPlanner(preset, price, setting=setting, budget=budget), **options)
