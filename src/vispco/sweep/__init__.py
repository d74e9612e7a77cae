"""Sweeps: evaluate many schedules, on one machine or several, stop and go on at will, and keep the frontier.

    frontier = vispco.sweep.run(factory, name="qwen", space="single", strategy="grid", num_layers=36, directory="runs")

Names are imported when they are first used: a worker needs neither Optuna nor its database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.lazy_exports import lazy_exports, make_callable

if TYPE_CHECKING:
    from vispco.sweep.loaded_model import sweep
    from vispco.sweep.progress import Display, OnProgress, Progress
    from vispco.sweep.runner import run
    from vispco.sweep.workers.worker_pool import Factory

_HOMES = {
    "Display": "vispco.sweep.progress",
    "Factory": "vispco.sweep.workers.worker_pool",
    "OnProgress": "vispco.sweep.progress",
    "Progress": "vispco.sweep.progress",
    "run": "vispco.sweep.runner",
    "sweep": "vispco.sweep.loaded_model",
}

__all__ = ["Display", "Factory", "OnProgress", "Progress", "run", "sweep"]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
make_callable(__name__, "sweep")
