"""Benchmarks on this machine: time to the first token by part, decoding speed, KV cache and peak memory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from vispco.timing.timing import BenchRow, BenchSettings, read_candidates, summarize, time_candidates

__all__ = ["BenchRow", "BenchSettings", "read_candidates", "summarize", "time_candidates"]

__getattr__, __dir__ = lazy_exports(__name__, dict.fromkeys(__all__, "vispco.timing.timing"))
