"""A list of samples that also says what was left out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

from vispco.data.files.limits import beyond_context
from vispco.data.files.skipped import Skipped, SkippedItemError

if TYPE_CHECKING:
    from PIL.Image import Image

    from vispco.data.files.record import Record
    from vispco.data.files.skipped import SkipReport
    from vispco.data.sample import Sample

NARROW = 50  # a side this many times as long as the other: image processors have limits, and this is below all of them

SampleT_co = TypeVar("SampleT_co", bound="Sample", covariant=True)


class SampleSet(Sequence[SampleT_co]):
    """Samples in order; `skipped` has a report for each task that was read from a file."""

    def __init__(self, items: Sequence[SampleT_co], skipped: Mapping[str, SkipReport] | None = None) -> None:
        self.items, self.skipped = items, dict(skipped or {})

    @staticmethod
    def of(samples: Sequence[Sample]) -> SampleSet[Sample]:
        """The samples as a set: a set as it is, any other sequence with nothing skipped."""
        return samples if isinstance(samples, SampleSet) else SampleSet(samples)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> SampleT_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SampleT_co]: ...
    def __getitem__(self, index: int | slice) -> SampleT_co | Sequence[SampleT_co]:
        return self.items[index]

    def for_model(self, model: Any, processor: Any) -> SampleSet[SampleT_co]:  # noqa: ARG002  for sets of files
        """As this model is asked, without the samples that its processor refuses; these are counted in `skipped`."""
        return self

    def figures(self, scores: Mapping[str, float]) -> dict[str, dict[str, float]]:  # noqa: ARG002
        """Figures by task besides the mean score, from the scores by id."""
        return {}


def decoded(record: Record, report: SkipReport) -> list[Image] | None:
    """The pictures; None if one is broken, which is then counted."""
    try:
        return record.images()
    except SkippedItemError as error:
        leave_out(report, error.skipped)
        return None


def refusal(
    record: Record, sizes: Sequence[tuple[int, int]], processor: Any, context: int | None = None
) -> Skipped | None:
    """Why the record cannot be asked: too many words for the model, or pictures that the processor cannot read.

    Only pictures of an odd shape are tried. context: the tokens that the model takes, where known.
    """
    wordy = beyond_context(record, processor, context)
    if wordy is not None:
        return wordy
    if all(max(size) <= NARROW * min(size) for size in sizes):
        return None
    try:
        for picture in record.images():
            processor.image_processor(images=[picture], return_tensors="pt")
    except SkippedItemError as error:
        return error.skipped
    except (ValueError, ZeroDivisionError, RuntimeError) as error:
        shown = " and ".join(f"{width} × {height}" for width, height in sizes)
        detail = f"its image of {shown} pixels cannot be read by the model's processor ({error})"
        return Skipped("unusable shape", record.file, record.row, detail, record.id)
    return None


def leave_out(report: SkipReport, skipped: Skipped) -> None:
    """Count an item that was counted as used before."""
    report.used -= 1
    report.add(skipped)
