"""ChartQA: a number or a few words read from a chart."""

from vispco.metrics.benchmark import BENCHMARKS, SHORT, Benchmark

CHARTQA = BENCHMARKS.register(
    Benchmark("chartqa", "ChartQA", "words", "relaxed", SHORT, ("ChartQA_TEST", "ChartQA", "ChartQA_VAL"))
)
