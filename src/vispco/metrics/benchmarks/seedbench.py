"""SEEDBench (images): multiple choice about scenes, instances and text."""

from vispco.metrics.benchmark import BENCHMARKS, LETTER, Benchmark

SEEDBENCH = BENCHMARKS.register(
    Benchmark("seedbench", "SEEDBench", "options", "option", LETTER, ("SEEDBench_IMG", "SEEDBench"))
)
