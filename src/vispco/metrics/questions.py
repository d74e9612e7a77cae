"""The questions of several benchmark files, and what in these files could not be used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vispco.errors import InvalidInputError
from vispco.metrics.evaluation_set import EvaluationSet
from vispco.metrics.question import Question
from vispco.sources.checked import decoded, leave_out, refusal
from vispco.sources.drawing import draw
from vispco.sources.image import MAX_SIDE
from vispco.sources.sample_set import SampleSet
from vispco.sources.skipped import SkipReport


class Questions(SampleSet[Question]):
    """The rows of benchmark files; `skipped` has a report for each benchmark."""

    def readable_by(self, processor: Any) -> Questions:
        """Without those whose pictures have a shape that the model's processor refuses; these are counted, too."""
        kept = []
        for item in self.items:
            refused = refusal(item.record, item.sizes, processor)
            if refused is None:
                kept.append(item)
            else:
                leave_out(self.skipped[item.task], refused)
        self._require(kept)
        return Questions(kept, self.skipped)

    def _require(self, kept: Sequence[Question]) -> None:
        for task in self.skipped:
            if not any(item.task == task for item in kept):
                report = self.skipped[task]
                raise InvalidInputError(
                    f"Nothing of {task} can be used; {report.summary()}. The first: {report.listed[0].sentence}"
                )


def read_questions(
    files: Mapping[str, str | Path],
    *,
    limit: int | None = None,
    seed: int = 0,
    encoding: str = "utf-8",
    max_side: int | None = None,
    max_new_tokens: int | None = None,
) -> Questions:
    """The questions of each benchmark's file; with `limit`, so many of each, drawn by the seed.

    Every picture is decoded once, to know its size and that it is whole, and forgotten.
    """
    items: list[Question] = []
    reports: dict[str, SkipReport] = {}
    for name, file in files.items():
        table = EvaluationSet(name, file, encoding=encoding, max_side=max_side or MAX_SIDE)
        chosen = draw(table, limit, seed)
        for record in chosen:
            pictures = decoded(record, table.report)
            if pictures is not None:
                sizes = tuple(picture.size for picture in pictures)
                items.append(Question(record, table.benchmark, sizes, max_new_tokens))
        reports[table.benchmark.name] = table.report
    found = Questions(items, reports)
    found._require(items)  # noqa: SLF001  the same class
    return found
