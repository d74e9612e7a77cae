"""The searches by name. A search's own module is imported when it is asked for: not every one needs Optuna."""

from __future__ import annotations

import re
from dataclasses import fields
from importlib import import_module
from typing import Any

from vispco.errors import InvalidInputError, UnknownNameError
from vispco.rivals.rival import Baseline

BASELINES: dict[str, tuple[str, str]] = {
    "vtw": ("vtw", "VTW"),
    "fitprune": ("fitprune", "FitPrune"),
    "g-search": ("g_search", "GSearch"),
    "p-sigmoid-bo": ("p_sigmoid_bo", "PSigmoidBO"),
    "random": ("random_n", "RandomN"),
    "single-grid": ("single_grid", "SingleGrid"),
}


def get(name: str, **settings: Any) -> Baseline:
    """The search `name`, with its settings; 'random-40' is 'random' with n=40."""
    numbered = re.fullmatch(r"random-(\d+)", name)
    if numbered:
        name, settings = "random", {"n": int(numbered[1]), **settings}
    if name not in BASELINES:
        raise UnknownNameError("search", name, [*BASELINES, "random-N"])
    module, kind = BASELINES[name]
    search: type[Baseline] = getattr(import_module(f"vispco.rivals.{module}"), kind)
    known = [field.name for field in fields(search)]
    if not settings.keys() <= set(known):
        raise InvalidInputError(f"The search {name!r} was given {sorted(settings)}. It takes: {', '.join(known)}.")
    return search(**settings)
