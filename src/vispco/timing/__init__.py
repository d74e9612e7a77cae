"""Benchmarks on this machine: time to the first token by part, decoding speed, KV cache and peak memory."""

from vispco.timing.timing import BenchRow, BenchSettings, read_candidates, summarize, time_candidates

__all__ = ["BenchRow", "BenchSettings", "read_candidates", "summarize", "time_candidates"]
