"""Metrics, benchmarks, protocols, and the questions of benchmark files as samples."""

from vispco.metrics.benchmark import BENCHMARKS, Benchmark, benchmark, find, parse_tasks
from vispco.metrics.benchmark_samples import (
    BenchmarkSample,
    BenchmarkSet,
    EvaluationSet,
    read_benchmarks,
    write_predictions,
)
from vispco.metrics.metric import METRICS, containment, extract_yes_no, yes_no
from vispco.metrics.multiple_choice import extract_option
from vispco.metrics.protocols import PROTOCOLS, AskSettings, EvaluationProtocol, protocol
from vispco.metrics.relaxed import relaxed, relaxed_lenient
from vispco.metrics.vqa import vlmevalkit_option, vlmevalkit_vqa, vlmevalkit_yes_no, vqa

__all__ = [
    "BENCHMARKS",
    "METRICS",
    "PROTOCOLS",
    "AskSettings",
    "Benchmark",
    "BenchmarkSample",
    "BenchmarkSet",
    "EvaluationProtocol",
    "EvaluationSet",
    "benchmark",
    "containment",
    "extract_option",
    "extract_yes_no",
    "find",
    "parse_tasks",
    "protocol",
    "read_benchmarks",
    "relaxed",
    "relaxed_lenient",
    "vlmevalkit_option",
    "vlmevalkit_vqa",
    "vlmevalkit_yes_no",
    "vqa",
    "write_predictions",
    "yes_no",
]
