"""Pruners of published methods, for a model."""

from __future__ import annotations

from typing import Any

from vispco import cost as costs
from vispco.cost import Cost
from vispco.presets.planner import PresetPlanner
from vispco.presets.preset import Preset
from vispco.presets.registry import parse
from vispco.pruner import Pruner


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
