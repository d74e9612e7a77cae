"""How a prediction is scored (one file for each metric) and what each benchmark asks (one file for each benchmark)."""

from vispco.metrics import benchmarks
from vispco.metrics.benchmark import BENCHMARKS, Benchmark, benchmark
from vispco.metrics.benchmark_files import find, parse_tasks
from vispco.metrics.benchmark_samples import BenchmarkSample, BenchmarkSet, EvaluationSet, read_benchmarks
from vispco.metrics.containment import containment
from vispco.metrics.metric import METRICS
from vispco.metrics.multiple_choice import extract_option
from vispco.metrics.predictions import write_predictions
from vispco.metrics.protocols import PROTOCOLS, AskSettings, EvaluationProtocol, protocol
from vispco.metrics.relaxed import relaxed, relaxed_lenient
from vispco.metrics.vlmevalkit import vlmevalkit_option, vlmevalkit_vqa, vlmevalkit_yes_no
from vispco.metrics.vqa import vqa
from vispco.metrics.yes_no import extract_yes_no, yes_no

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
    "benchmarks",
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
