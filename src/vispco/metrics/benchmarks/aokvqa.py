"""A-OKVQA: multiple choice that needs knowledge about the world."""

from vispco.metrics.benchmark import BENCHMARKS, LETTER, Benchmark

AOKVQA = BENCHMARKS.register(
    Benchmark("aokvqa", "A-OKVQA", "options", "option", LETTER, ("A-OKVQA", "AOKVQA", "aokvqa_val"))
)
