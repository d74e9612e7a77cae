"""Published methods on a model: a pruner, and its token plans for samples of any size."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vispco import cost as costs
from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.cost import Budget, BudgetLike, Cost, KvBytes
from vispco.cost.host import HostPricing
from vispco.engine import unwrap
from vispco.engine.plan import TokenPlan
from vispco.pruner.measured_planner import MeasuredCosts, covering_size, share_rows, time_share
from vispco.pruner.presets.preset import Preset, parse
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.cost import Workload


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
        budget: BudgetLike | None = None,
        chain: Chain | None = None,
    ) -> None:
        self.preset, self.cost, self.setting = preset, cost, setting
        self.budget = None if budget is None else Budget.of(budget)
        if self.budget is not None and self.budget.is_mean:
            raise InvalidInputError(
                f"The budget {budget} was given. A method meets a budget for every prompt: 0.5 or 40ms."
            )
        if self.budget is not None and self.budget.kind == "prefill":
            self.budget.fraction  # noqa: B018 - refused: methods are scaled by the language model's FLOPs
        self._measured = MeasuredCosts(cost.dimensions)
        self.chain = chain or preset.chain_for(cost.num_layers, setting)
        self._known: dict[tuple[Any, ...], Tensor] = {}

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        if self.budget is None:
            layers = self.cost.num_layers
            return TokenPlan(self.preset.schedule(layers, layout.num_visual, self.setting).counts(layout.num_visual))
        if self.budget.is_time:
            return self._by_time(self.budget, layout, embeddings)
        return TokenPlan(torch.stack([self.counts(*size) for size in layout.prompt_sizes.tolist()]))

    def _by_time(self, budget: Budget, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        """One length of rows for each layer, as `MeasuredPlanner` has it: time holds for the batch."""
        rows = layout.prompt_sizes
        cost, size = self._measured.at(len(rows), embeddings), covering_size(rows)
        key = (size.tobytes(), len(rows), embeddings.device, embeddings.dtype)
        if key not in self._known:
            load = self._workload(size[0].tolist())
            share = float(time_share(budget, load, cost)[0])
            self._known[key] = self.preset.counts_at_budget(share, cost, load, self.setting, asked=budget)[0]
        return TokenPlan(torch.from_numpy(share_rows(self._known[key].numpy(), rows)))

    def _workload(self, size: Sequence[int]) -> Workload:
        return workload_under(self.chain, self.cost.dimensions, *([number] for number in size))

    def counts(self, *size: int) -> Tensor:
        """Whole tokens [L] of a sample of one size (see `TokenLayout.prompt_sizes`); those of a size are computed once."""
        if size not in self._known:
            load, cost, asked = self._workload(size), self.cost, None
            share = 1.0 if self.budget is None else self.budget.amount
            if self.budget is not None and self.budget.kind == "bytes":
                cost, asked = KvBytes(self.cost.dimensions), self.budget
                share = min(1.0, share / float(HostPricing(cost, load).divisor[0]))
            self._known[size] = self.preset.counts_at_budget(share, cost, load, self.setting, asked=asked)[0]
        return self._known[size]


def pruner(method: str | Preset, config: Any, *, budget: BudgetLike | None = None, **options: Any) -> Pruner:
    """A pruner that runs a method as published, or at a budget.

    method: 'pyramiddrop', with a setting 'sparsevlm:64', or a `Preset`. config: of the model, or the model itself.
    budget: a fraction of each sample's unpruned cost, time (40ms, 0.6t) or KV bytes, met by every sample. options: of `Pruner` (`mode`, `record`).
    """
    return Pruner(*plan_method(method, config, budget), **options)


def plan_method(method: str | Preset, config: Any, budget: BudgetLike | None = None) -> tuple[Chain, PresetPlanner]:
    """The chain of a method, and its token plans; see `pruner`."""
    preset, setting = (method, method.default) if isinstance(method, Preset) else parse(method)
    price = costs.get("exact", getattr(config, "config", config))
    chain = preset.chain_for(price.num_layers, setting)
    if chain.tower:
        raise InvalidInputError(
            f"The chain {str(chain)!r} chooses inside the vision tower, for which no published method has a setting. Give it with a "
            "budget (--budget 0.4p), or with a schedule (--scorer CHAIN --schedule tower:4=0.5+single:2:0.3)."
        )
    bound = chain.for_model(unwrap(config)) if isinstance(config, nn.Module) else chain
    return chain, PresetPlanner(preset, price, setting=setting, budget=budget, chain=bound)
