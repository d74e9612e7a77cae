"""How a prediction is scored: one file a metric, one table of the paper's benchmarks."""

from vispco.metrics.benchmarks import BENCHMARKS, Benchmark, benchmark
from vispco.metrics.containment import containment
from vispco.metrics.evaluation_set import EvaluationSet
from vispco.metrics.locating import find, parse_tasks
from vispco.metrics.options import extract_option
from vispco.metrics.question import Question
from vispco.metrics.questions import Questions, read_questions
from vispco.metrics.relaxed import relaxed
from vispco.metrics.vqa import vqa
from vispco.metrics.yes_no import extract_yes_no, yes_no

__all__ = [
    "BENCHMARKS",
    "Benchmark",
    "EvaluationSet",
    "Question",
    "Questions",
    "benchmark",
    "containment",
    "extract_option",
    "extract_yes_no",
    "find",
    "parse_tasks",
    "read_questions",
    "relaxed",
    "vqa",
    "yes_no",
]
