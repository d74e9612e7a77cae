"""How good a schedule is, and what it costs: accuracy per task with an interval, KL to the unpruned model, FLOPs.

What needs a model is imported when it is first used, so that reading a result costs nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from vispco.evaluation.result import Evaluation, Evaluator, TaskResult, wilson_interval

if TYPE_CHECKING:
    from vispco.evaluation.encoded import Encoded, encode
    from vispco.evaluation.evaluator import TaskEvaluator
    from vispco.evaluation.features import FeatureStore
    from vispco.evaluation.forced import answer_logits
    from vispco.evaluation.reference import Reference
    from vispco.evaluation.spec import EvaluatorSpec

_HOMES = {
    "Encoded": "encoded",
    "EvaluatorSpec": "spec",
    "FeatureStore": "features",
    "Reference": "reference",
    "TaskEvaluator": "evaluator",
    "answer_logits": "forced",
    "encode": "encoded",
}

__all__ = [
    "Encoded",
    "Evaluation",
    "Evaluator",
    "EvaluatorSpec",
    "FeatureStore",
    "Reference",
    "TaskEvaluator",
    "TaskResult",
    "answer_logits",
    "encode",
    "wilson_interval",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
