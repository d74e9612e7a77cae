"""TextVQA: questions about text in photos, each answered by ten people."""

from vispco.metrics.benchmark import BENCHMARKS, SHORT, Benchmark

TEXTVQA = BENCHMARKS.register(Benchmark("textvqa", "TextVQA", "words", "vqa", SHORT, ("TextVQA_VAL", "TextVQA")))
