"""Benchmarks on this machine: time to the first token by part, decoding speed, KV cache and peak memory."""

from vispco.bench.candidate import BenchCandidate
from vispco.bench.timing import BenchRow, BenchSettings, summarize, time_candidates

__all__ = ["BenchCandidate", "BenchRow", "BenchSettings", "summarize", "time_candidates"]
