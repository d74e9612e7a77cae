"""How a prediction is scored (one file for each metric) and what each benchmark asks (one file for each benchmark)."""

from vispco.metrics import benchmarks
from vispco.metrics.benchmark import BENCHMARKS, Benchmark, benchmark
from vispco.metrics.benchmark_files import find, parse_tasks
from vispco.metrics.benchmark_samples import BenchmarkSample, BenchmarkSet, EvaluationSet, read_benchmarks
from vispco.metrics.containment import containment
from vispco.metrics.metric import METRICS
from vispco.metrics.multiple_choice import extract_option
from vispco.metrics.relaxed import relaxed, relaxed_lenient
from vispco.metrics.vqa import vqa
from vispco.metrics.yes_no import extract_yes_no, yes_no

__all__ = [
    "BENCHMARKS",
    "METRICS",
    "Benchmark",
    "BenchmarkSample",
    "BenchmarkSet",
    "EvaluationSet",
    "benchmark",
    "benchmarks",
    "containment",
    "extract_option",
    "extract_yes_no",
    "find",
    "parse_tasks",
    "read_benchmarks",
    "relaxed",
    "relaxed_lenient",
    "vqa",
    "yes_no",
]
