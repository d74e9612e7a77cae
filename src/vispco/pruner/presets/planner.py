"""Published methods on a model: a pruner, and its token plans for samples of any size."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from vispco import cost as costs
from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.cost import Cost
from vispco.engine import unwrap
from vispco.engine.plan import TokenPlan
from vispco.pruner.presets.preset import Preset, parse
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under


class PresetPlanner:
    """The engine's `Planner` of a method: its published setting, or scaled to a budget that holds for every sample.

    cost: prices the budget; without a budget it only says how many layers there are. The budget is about the prompt: answer
    tokens that stand in the batch (teacher forcing) are not counted. chain: the method's on a model, with its weights.
    """

    def __init__(
        self,
        preset: Preset,
        cost: Cost,
        *,
        setting: str | None = None,
        budget: float | None = None,
        chain: Chain | None = None,
    ) -> None:
        if budget is not None and not 0.0 < budget <= 1.0:
            raise InvalidInputError(
                f"budget={budget} was given. It is a fraction of the unpruned cost: above 0, up to 1."
            )
        self.preset, self.cost, self.setting, self.budget = preset, cost, setting, budget
        self.chain = chain or preset.chain_for(cost.num_layers, setting)
        self._known: dict[tuple[int, ...], Tensor] = {}

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:  # noqa: ARG002
        if self.budget is None:
            layers = self.cost.num_layers
            return TokenPlan(self.preset.schedule(layers, layout.num_visual, self.setting).counts(layout.num_visual))
        return TokenPlan(torch.stack([self.counts(*size) for size in layout.prompt_sizes.tolist()]))

    def counts(self, *size: int) -> Tensor:
        """Whole tokens [L] of a sample of one size (see `TokenLayout.prompt_sizes`); those of a size are computed once."""
        if size not in self._known:
            load = workload_under(self.chain, self.cost.dimensions, *([number] for number in size))
            budget = 1.0 if self.budget is None else self.budget
            self._known[size] = self.preset.counts_at_budget(budget, self.cost, load, self.setting)[0]
        return self._known[size]


def pruner(
    method: str | Preset, config: Any, *, budget: float | None = None, cost: str | Cost = "exact", **options: Any
) -> Pruner:
    """A pruner that runs a method as published, or at a budget.

    method: 'pyramiddrop', with a setting 'sparsevlm:64', or a `Preset`. config: of the model, or the model itself.
    budget: a fraction of each sample's unpruned cost, met by every sample. options: of `Pruner` (`mode`, `record`).
    """
    return Pruner(*plan_method(method, config, budget, cost), **options)


def plan_method(
    method: str | Preset, config: Any, budget: float | None = None, cost: str | Cost = "exact"
) -> tuple[Chain, PresetPlanner]:
    """The chain of a method, and its token plans; see `pruner`."""
    preset, setting = (method, method.default) if isinstance(method, Preset) else parse(method)
    price = cost if isinstance(cost, Cost) else costs.get(cost, getattr(config, "config", config))
    chain = preset.chain_for(price.num_layers, setting)
    bound = chain.for_model(unwrap(config)) if isinstance(config, nn.Module) else chain
    return chain, PresetPlanner(preset, price, setting=setting, budget=budget, chain=bound)
