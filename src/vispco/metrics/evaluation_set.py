"""A benchmark's file as the items that an evaluator asks: each with its prompt, its answers and its metric."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.metrics.benchmarks import benchmark
from vispco.sources.image import MAX_SIDE
from vispco.sources.skipped import Skipped
from vispco.sources.tsv import Tsv

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vispco.sources.record import Record


class EvaluationSet(Tsv):
    """The rows of `file` with the prompt of benchmark `name`; `score(prediction, record)` is in [0, 1]."""

    def __init__(
        self,
        name: str,
        file: str | Path,
        images: str | Path | None = None,
        *,
        encoding: str = "utf-8",
        max_side: int = MAX_SIDE,
    ) -> None:
        self.benchmark = benchmark(name)
        super().__init__(file, images, task=self.benchmark.name, encoding=encoding, max_side=max_side)

    def _read(self) -> Iterator[Record | Skipped]:
        for entry in super()._read():
            yield entry if isinstance(entry, Skipped) else entry.with_prompt(self.benchmark.prompt(entry))

    def score(self, prediction: str, record: Record) -> float:
        return self.benchmark.metric(prediction, record)
