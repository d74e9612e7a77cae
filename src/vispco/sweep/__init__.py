"""Sweeps: evaluate many schedules, on one machine or several, stop and go on at will, and keep the frontier.

    frontier = vispco.sweep.run(factory, name="qwen", space="single", strategy="grid", num_layers=36, directory="runs")

Names are imported when they are first used: a worker needs neither Optuna nor its database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vispco.sweep.progress import Display, OnProgress, Progress
    from vispco.sweep.runner import run
    from vispco.sweep.workers.worker_pool import Factory

_HOMES = {
    "Display": "vispco.sweep.progress",
    "Factory": "vispco.sweep.workers.worker_pool",
    "OnProgress": "vispco.sweep.progress",
    "Progress": "vispco.sweep.progress",
    "run": "vispco.sweep.runner",
}

__all__ = ["Display", "Factory", "OnProgress", "Progress", "run"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'vispco.sweep' has no attribute {name!r}")
