"""From a budget to a schedule: the paper's gradient search, its rivals, and a predictor that does it per sample.

`search` is the way in; `deploy.load` and `deploy.export` are the way out. Names are imported when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vispco.search.modes import Effort
    from vispco.search.objective import Objective
    from vispco.search.predictor import Predictor, PredictorConfig
    from vispco.search.presets import Preset
    from vispco.search.run import search
    from vispco.search.trainer import Trainer
    from vispco.search.training_plan import TrainingPlan

_HOMES = {
    "Effort": "modes",
    "Objective": "objective",
    "Predictor": "predictor",
    "PredictorConfig": "predictor",
    "Preset": "presets",
    "Trainer": "trainer",
    "TrainingPlan": "training_plan",
    "search": "run",
}

__all__ = ["Effort", "Objective", "Predictor", "PredictorConfig", "Preset", "Trainer", "TrainingPlan", "search"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
