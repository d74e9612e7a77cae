"""How good a schedule is, and what it costs: accuracy per task with an interval, KL to the unpruned model, FLOPs."""

from vispco.evaluation.result import Evaluation, Evaluator, TaskResult, wilson_interval

__all__ = ["Evaluation", "Evaluator", "TaskResult", "wilson_interval"]
