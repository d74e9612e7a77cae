"""Metrics, benchmarks, protocols, and the questions of benchmark files as samples."""

from vispco.metrics import multiple_choice, relaxed, vqa  # noqa: F401 - they register their metrics
from vispco.metrics.benchmark import BENCHMARKS, Benchmark, benchmark, find, parse_tasks
from vispco.metrics.benchmark_samples import BenchmarkSample, BenchmarkSet, read_benchmarks, write_predictions
from vispco.metrics.metric import METRICS
from vispco.metrics.protocols import PROTOCOLS, AskSettings, EvaluationProtocol, protocol

__all__ = [
    "BENCHMARKS",
    "METRICS",
    "PROTOCOLS",
    "AskSettings",
    "Benchmark",
    "BenchmarkSample",
    "BenchmarkSet",
    "EvaluationProtocol",
    "benchmark",
    "find",
    "parse_tasks",
    "protocol",
    "read_benchmarks",
    "write_predictions",
]
