"""vispco: which visual tokens a vision-language model can do without, at which layer, for a given budget.

    model, processor = vispco.load("tiny-qwen")
    with vispco.Pruner("fastv", vispco.Schedule.single(layer=2, keep=0.5, num_layers=10))(model):
        model.generate(**inputs)

Names are imported when they are first used, so that `import vispco` costs nothing. `vispco.search` and `vispco.sweep` are
packages that can be called; `vispco.lazy_exports` says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.lazy_exports import lazy_exports
from vispco.version import __version__

if TYPE_CHECKING:
    from vispco import presets, vllm
    from vispco.cost import BudgetWarning
    from vispco.errors import (
        InvalidInputError,
        PrunerStateError,
        UnknownNameError,
        UnsupportedModelError,
        VispcoError,
    )
    from vispco.evaluation.evaluate_model import evaluate
    from vispco.frontier import Frontier
    from vispco.loading import load
    from vispco.model_source import LoadError
    from vispco.planning.pruner_config import PrunerConfig
    from vispco.pruner import Pruner
    from vispco.schedule import Schedule
    from vispco.scorers import Scorer, register
    from vispco.search.run import search
    from vispco.sweep.loaded_model import sweep

_HOMES = {
    "BudgetWarning": "vispco.cost",
    "Frontier": "vispco.frontier",
    "InvalidInputError": "vispco.errors",
    "LoadError": "vispco.model_source",
    "Pruner": "vispco.pruner",
    "PrunerConfig": "vispco.planning.pruner_config",
    "PrunerStateError": "vispco.errors",
    "Schedule": "vispco.schedule",
    "Scorer": "vispco.scorers",
    "UnknownNameError": "vispco.errors",
    "UnsupportedModelError": "vispco.errors",
    "VispcoError": "vispco.errors",
    "evaluate": "vispco.evaluation.evaluate_model",
    "load": "vispco.loading",
    "presets": "vispco.presets",
    "register": "vispco.scorers",
    "search": "vispco.search",
    "sweep": "vispco.sweep",
    "vllm": "vispco.vllm",
}

__all__ = [
    "BudgetWarning",
    "Frontier",
    "InvalidInputError",
    "LoadError",
    "Pruner",
    "PrunerConfig",
    "PrunerStateError",
    "Schedule",
    "Scorer",
    "UnknownNameError",
    "UnsupportedModelError",
    "VispcoError",
    "__version__",
    "evaluate",
    "load",
    "presets",
    "register",
    "search",
    "sweep",
    "vllm",
]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
