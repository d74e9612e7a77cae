"""From a budget to a schedule: the paper's gradient search, its rivals, and a predictor that does it per sample.

`search` is the way in; `vispco.PrunerSpec` is the way out. Names are imported when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from vispco.pruner.predictor import Predictor, PredictorConfig
    from vispco.search.gradient.trainer import PredictorTrainer
    from vispco.search.gradient.training_settings import TrainingSettings
    from vispco.search.objective import Objective
    from vispco.search.presets import SearchPreset
    from vispco.search.run_search import search
    from vispco.search.search_spec import Effort, SearchSpec

_HOMES = {
    "Effort": "vispco.search.search_spec",
    "Objective": "vispco.search.objective",
    "Predictor": "vispco.pruner.predictor",
    "PredictorConfig": "vispco.pruner.predictor",
    "SearchPreset": "vispco.search.presets",
    "PredictorTrainer": "vispco.search.gradient.trainer",
    "SearchSpec": "vispco.search.search_spec",
    "TrainingSettings": "vispco.search.gradient.training_settings",
    "search": "vispco.search.run_search",
}

__all__ = [
    "Effort",
    "Objective",
    "Predictor",
    "PredictorConfig",
    "PredictorTrainer",
    "SearchPreset",
    "SearchSpec",
    "TrainingSettings",
    "search",
]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
