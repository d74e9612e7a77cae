"""vispco: which visual tokens a vision-language model can do without, at which layer, for a given budget.

    model, processor = vispco.load("tiny-qwen")
    with vispco.Pruner("fastv", vispco.Schedule.single(layer=2, keep=0.5, num_layers=10))(model):
        model.generate(**inputs)

Names are imported when they are first used, so that `import vispco` costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports
from vispco.version import __version__

if TYPE_CHECKING:
    from vispco import search, sweep, vllm
    from vispco.core.errors import (
        InvalidInputError,
        PrunerStateError,
        UnknownNameError,
        UnsupportedModelError,
        VispcoError,
    )
    from vispco.core.schedule import Schedule
    from vispco.cost import BudgetWarning
    from vispco.evaluation.evaluator import evaluate
    from vispco.evaluation.frontier import Frontier
    from vispco.models.loading import load
    from vispco.models.model_spec import LoadError
    from vispco.pruner import presets
    from vispco.pruner.pruner import Pruner
    from vispco.pruner.pruner_spec import PrunerSpec
    from vispco.scorers import Scorer, register

_HOMES = {
    "BudgetWarning": "vispco.cost",
    "Frontier": "vispco.evaluation.frontier",
    "InvalidInputError": "vispco.core.errors",
    "LoadError": "vispco.models.model_spec",
    "Pruner": "vispco.pruner.pruner",
    "PrunerSpec": "vispco.pruner.pruner_spec",
    "PrunerStateError": "vispco.core.errors",
    "Schedule": "vispco.core.schedule",
    "Scorer": "vispco.scorers",
    "UnknownNameError": "vispco.core.errors",
    "UnsupportedModelError": "vispco.core.errors",
    "VispcoError": "vispco.core.errors",
    "evaluate": "vispco.evaluation.evaluator",
    "load": "vispco.models.loading",
    "presets": "vispco.pruner.presets",
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
    "PrunerSpec",
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
