"""A row of a benchmark as an evaluator asks it: the fields of a `Sample`, with a picture that is decoded when needed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.Image import Image

    from vispco.data.sample import History
    from vispco.metrics.benchmarks import Benchmark
    from vispco.sources.record import Record


@dataclass(frozen=True)
class Question:
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
        different = {reference.strip().lower() for reference in self.record.references}
        return self.record.references[0] if len(different) == 1 else ""

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

    def with_images(self, images: Sequence[Image]) -> Question:
        return replace(self, replaced=tuple(images), sizes=tuple(image.size for image in images))

    def with_id(self, identity: str) -> Question:
        return replace(self, given_id=identity)

    def score(self, prediction: str) -> float:
        """In [0, 1], by the benchmark's metric."""
        return self.benchmark.metric(prediction, self.record)
