"""How good a schedule is, and what it costs: accuracy per task with an interval, KL to the unpruned model, FLOPs.

What needs a model is imported when it is first used, so that reading a result costs nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports
from vispco.evaluation.result import Evaluation, Evaluator, TaskResult, wilson_interval

if TYPE_CHECKING:
    from vispco.evaluation.encoded import Encoded, encode
    from vispco.evaluation.evaluator import EvaluatorOptions, TaskEvaluator, evaluate
    from vispco.evaluation.features import FeatureStore
    from vispco.evaluation.kl_meter import KlMeter, Reference, answer_logits
    from vispco.evaluation.spec import EvaluatorSpec

_HOMES = {
    "Encoded": "vispco.evaluation.encoded",
    "EvaluatorOptions": "vispco.evaluation.evaluator",
    "EvaluatorSpec": "vispco.evaluation.spec",
    "FeatureStore": "vispco.evaluation.features",
    "KlMeter": "vispco.evaluation.kl_meter",
    "Reference": "vispco.evaluation.kl_meter",
    "TaskEvaluator": "vispco.evaluation.evaluator",
    "answer_logits": "vispco.evaluation.kl_meter",
    "encode": "vispco.evaluation.encoded",
    "evaluate": "vispco.evaluation.evaluator",
}

__all__ = [
    "Encoded",
    "Evaluation",
    "Evaluator",
    "EvaluatorOptions",
    "EvaluatorSpec",
    "FeatureStore",
    "KlMeter",
    "Reference",
    "TaskEvaluator",
    "TaskResult",
    "answer_logits",
    "encode",
    "evaluate",
    "wilson_interval",
]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
