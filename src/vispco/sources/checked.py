"""Whether a record's pictures can be decoded, and read by the model that is to see them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vispco.sources.skipped import Skipped, SkippedItemError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from PIL.Image import Image

    from vispco.sources.record import Record
    from vispco.sources.skipped import SkipReport

NARROW = 50  # a side this many times as long as the other: image processors have limits, and this is below all of them


def decoded(record: Record, report: SkipReport) -> list[Image] | None:
    """The pictures; None if one is broken, which is then counted."""
    try:
        return record.images()
    except SkippedItemError as error:
        leave_out(report, error.skipped)
        return None


def refusal(record: Record, sizes: Sequence[tuple[int, int]], processor: Any) -> Skipped | None:
    """Why the processor cannot read the record's pictures. Only those of an odd shape are tried."""
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
