"""VizWiz: questions of blind people about their own photos, many of which show no answer."""

from vispco.metrics.benchmark import BENCHMARKS, SHORT, Benchmark

ENDING = f"If the picture does not show the answer, say 'unanswerable'. {SHORT}"

VIZWIZ = BENCHMARKS.register(Benchmark("vizwiz", "VizWiz", "text", "vqa", ENDING, ("VizWiz", "VizWiz_VAL")))
