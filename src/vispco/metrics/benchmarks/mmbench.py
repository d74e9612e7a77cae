"""MMBench: multiple choice. Each question is asked once for every rotation of its options.

The rotations of question n have the indices n, n + 1,000,000, n + 2,000,000, ..., or a column `g_index` with n. The
circular score counts a question only if all its rotations are answered right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.metrics.benchmark import BENCHMARKS, LETTER, Benchmark

if TYPE_CHECKING:
    from vispco.metrics.benchmark import Scored
    from vispco.sources.record import Record

ROTATION = 1_000_000
SPLITS = ("DEV_EN", "DEV_EN_V11", "", "V11", "TEST_EN", "TEST_EN_V11")


def question_of(record: Record) -> str:
    """The index of the question that the row is a rotation of."""
    given = str(record.meta.get("g_index", "")).strip() or record.id
    return str(int(given) % ROTATION) if given.isdecimal() else given


def figures(scored: Scored) -> dict[str, float]:
    """The circular score."""
    groups: dict[str, list[float]] = {}
    for record, score in scored:
        groups.setdefault(question_of(record), []).append(score)
    return {"circular": sum(min(scores) for scores in groups.values()) / len(groups)}


FILES = tuple("MMBench" + (f"_{split}" if split else "") for split in SPLITS)
MMBENCH = BENCHMARKS.register(
    Benchmark("mmbench", "MMBench", "options", "option", LETTER, FILES, group=question_of, figures=figures)
)
