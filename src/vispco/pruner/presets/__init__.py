"""Presets: published methods by name, each as its paper sets it.

    with vispco.presets.pruner("pyramiddrop", model)(model): ...                   # as published
    with vispco.presets.pruner("sparsevlm:64", model, budget=0.5)(model): ...      # a setting by name, scaled to a budget
    vispco.presets.get("pyramiddrop").schedule(num_layers=28, num_visual=400)

To add one: an entry in `published.py`, or an entry point of the group `vispco.presets`.
The hyper-parameters of searches are another thing: `vispco.search.presets`.
"""

from vispco.pruner.presets import published  # noqa: F401 - it registers what it holds
from vispco.pruner.presets.account import LLAVA_7B, account, account_table
from vispco.pruner.presets.planner import PresetPlanner, pruner
from vispco.pruner.presets.preset import PRESETS, Preset, get, mean_tokens, method_chain, parse, register
from vispco.pruner.presets.setting import Setting

__all__ = [
    "LLAVA_7B",
    "PRESETS",
    "Preset",
    "PresetPlanner",
    "Setting",
    "account",
    "account_table",
    "get",
    "mean_tokens",
    "method_chain",
    "parse",
    "pruner",
    "register",
]
