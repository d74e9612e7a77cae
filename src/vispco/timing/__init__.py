"""Benchmarks on this machine: time to the first token by part, decoding speed, KV cache and peak memory."""

from vispco.timing.candidate import BenchCandidate
from vispco.timing.timing import BenchRow, BenchSettings, summarize, time_candidates

__all__ = ["BenchCandidate", "BenchRow", "BenchSettings", "summarize", "time_candidates"]
