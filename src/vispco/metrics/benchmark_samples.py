"""The rows of benchmark files as samples: each with its prompt, its answers and its metric."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vispco.errors import InvalidInputError
from vispco.metrics.benchmark import Benchmark, benchmark
from vispco.sources.image import MAX_SIDE
from vispco.sources.sample_set import SampleSet, decoded, leave_out, refusal
from vispco.sources.sampling import draw
from vispco.sources.skipped import Skipped, SkipReport
from vispco.sources.tsv import Tsv

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from PIL.Image import Image

    from vispco.data.sample import History
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
        return self.benchmark.score(prediction, record)


@dataclass(frozen=True)
class BenchmarkSample:
    """One question of a benchmark; it knows how its answer is scored.

    sizes: of its pictures, in pixels. limit: tokens of an answer; None for the benchmark's own limit.
    """

    record: Record
    benchmark: Benchmark
    sizes: tuple[tuple[int, int], ...]
    limit: int | None = None
    replaced: tuple[Image, ...] | None = field(default=None, repr=False, compare=False)
    given_id: str = ""

    @property
    def id(self) -> str:
        return self.given_id or f"{self.benchmark.name}/{self.record.id}"

    @property
    def task(self) -> str:
        return self.benchmark.name

    @property
    def question(self) -> str:
        """What the model is asked, with the benchmark's own words around it."""
        return self.record.prompt

    @property
    def answer(self) -> str:
        """The answer, where there is one; empty where people gave several, and the model's own is used instead."""
        given = [reference for reference in self.record.references if reference.strip()]
        return given[0] if len({reference.strip().lower() for reference in given}) == 1 else ""

    @property
    def references(self) -> tuple[str, ...]:
        return self.record.references

    @property
    def options(self) -> Mapping[str, str]:
        return self.record.options

    @property
    def meta(self) -> Mapping[str, Any]:
        return self.record.meta

    @property
    def max_new_tokens(self) -> int:
        return self.limit or self.benchmark.max_new_tokens

    @property
    def area(self) -> int:
        """Pixels of its pictures."""
        return sum(width * height for width, height in self.sizes)

    @property
    def image(self) -> Image:
        """The first picture."""
        return self.record.image() if self.replaced is None else self.replaced[0]

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(self.record.images()) if self.replaced is None else self.replaced

    @property
    def num_images(self) -> int:
        return len(self.sizes)

    @property
    def history(self) -> History:
        return ()

    def with_images(self, images: Sequence[Image]) -> BenchmarkSample:
        return replace(self, replaced=tuple(images), sizes=tuple(image.size for image in images))

    def with_id(self, identity: str) -> BenchmarkSample:
        return replace(self, given_id=identity)

    def score(self, prediction: str) -> float:
        """In [0, 1], by the benchmark's metric."""
        return self.benchmark.score(prediction, self.record)


class BenchmarkSet(SampleSet[BenchmarkSample]):
    """The rows of benchmark files; `skipped` has a report for each benchmark."""

    def readable_by(self, processor: Any) -> BenchmarkSet:
        """Without those whose pictures have a shape that the model's processor refuses; these are counted, too."""
        kept = []
        for item in self.items:
            refused = refusal(item.record, item.sizes, processor)
            if refused is None:
                kept.append(item)
            else:
                leave_out(self.skipped[item.task], refused)
        self._require(kept)
        return BenchmarkSet(kept, self.skipped)

    def _require(self, kept: Sequence[BenchmarkSample]) -> None:
        for task in self.skipped:
            if not any(item.task == task for item in kept):
                report = self.skipped[task]
                raise InvalidInputError(
                    f"Nothing of {task} can be used; {report.summary()}. The first: {report.listed[0].sentence}"
                )


def read_benchmarks(
    files: Mapping[str, str | Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    encoding: str = "utf-8",
    max_side: int | None = None,
    max_new_tokens: int | None = None,
) -> BenchmarkSet:
    """The questions of each benchmark's file; with `limit`, so many of each, drawn by the seed.

    Every picture is decoded once, to know its size and that it is whole, and forgotten.
    """
    items: list[BenchmarkSample] = []
    reports: dict[str, SkipReport] = {}
    for name, file in files.items():
        table = EvaluationSet(name, file, encoding=encoding, max_side=max_side or MAX_SIDE)
        chosen = draw(table, limit, seed)
        for record in chosen:
            pictures = decoded(record, table.report)
            if pictures is not None:
                sizes = tuple(picture.size for picture in pictures)
                items.append(BenchmarkSample(record, table.benchmark, sizes, max_new_tokens))
        reports[table.benchmark.name] = table.report
    found = BenchmarkSet(items, reports)
    found._require(items)  # noqa: SLF001  the same class
    return found
