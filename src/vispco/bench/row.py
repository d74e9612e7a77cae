"""A row of the hardware table: what one contender's rounds come to."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """Medians over rounds and prompts; speed-ups are medians of ratios, each to the unpruned run just beside it.

    flops: the language model's, as a fraction of unpruned (cost model `exact`). ttft_ms: p50 and p95 of the time to the
    first token, pictures and words in, first word out. speedup: `ttft` and `language` as measured, `ttft_implied` by all
    FLOPs that torch counts in that prefill, `language_implied` by the cost model. peak_bytes: of a process that does this
    alone, its weights included; prefill_bytes: by how much the prefill raised it. None where it was not measured.
    """

    configuration: str
    scorer: str | None
    budget: float | None
    flops: float
    ttft_ms: dict[str, float]
    speedup: dict[str, float]
    decode_tokens_per_second: float
    kv_bytes: int
    parts_ms: dict[str, float]
    peak_bytes: int | None = None
    prefill_bytes: int | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def summary(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p95, in milliseconds."""
    ordered = sorted(seconds)
    return {"p50": 1e3 * statistics.median(ordered), "p95": 1e3 * quantile(ordered, 0.95)}


def quantile(ordered: Sequence[float], share: float) -> float:
    """By linear interpolation between the two nearest of the ordered values."""
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def paired(reference: Sequence[float], own: Sequence[float]) -> float:
    """How many times faster: the median of ratios round by round, so that a machine that drifts is compared with itself."""
    return statistics.median(a / b for a, b in zip(reference, own, strict=True))
