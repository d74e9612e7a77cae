"""OCRBench: text of all kinds read from a picture."""

from vispco.metrics.benchmark import BENCHMARKS, Benchmark

OCRBENCH = BENCHMARKS.register(
    Benchmark("ocrbench", "OCRBench", "text", "contains", "", ("OCRBench",), max_new_tokens=128)
)
