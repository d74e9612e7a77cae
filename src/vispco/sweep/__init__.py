"""Sweeps: evaluate many schedules, on one machine or several, and keep the frontier. A stopped sweep can be continued.

    spec = vispco.sweep.SweepSpec(space="single", strategy="grid", num_layers=36)
    frontier = vispco.sweep.run(factory, spec, name="qwen", directory="runs")

Names are imported on first use, because a worker needs neither Optuna nor its database.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from vispco.sweep.pools import Factory
    from vispco.sweep.runner import OnProgress, Progress, run, sweep
    from vispco.sweep.spec import SweepSpec

_MODULES = {
    "Factory": "vispco.sweep.pools",
    "OnProgress": "vispco.sweep.runner",
    "Progress": "vispco.sweep.runner",
    "SweepSpec": "vispco.sweep.spec",
    "run": "vispco.sweep.runner",
    "sweep": "vispco.sweep.runner",
}

__all__ = ["Factory", "OnProgress", "Progress", "SweepSpec", "run", "sweep"]

__getattr__, __dir__ = lazy_exports(__name__, _MODULES)
