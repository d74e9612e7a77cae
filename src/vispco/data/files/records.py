"""A file of records that is read as it is used: forwards, as often as wanted, without holding it in memory."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from vispco.core.errors import InvalidInputError
from vispco.data.files.image import MAX_SIDE
from vispco.data.files.limits import check_regular, too_long
from vispco.data.files.skipped import Skipped, SkippedItemError, SkipReport

if TYPE_CHECKING:
    from PIL.Image import Image

    from vispco.data.files.record import Record


class Records(Iterable["Record"]):
    """`for record in records` reads the file once more; `records.report` says what that reading left out.

    A reader only has to yield a `Record` or a `Skipped` for each row. Pictures are looked at by their first bytes when
    a row is read; a picture that breaks later, when it is decoded, is counted by `decoded()`.
    """

    def __init__(self, file: str | Path, *, task: str = "", max_side: int = MAX_SIDE) -> None:
        self.file = Path(file)
        self.task = task
        self.max_side = max_side
        self.report = SkipReport()
        if max_side < 1:
            raise InvalidInputError(
                f"max_side is {max_side}; it is the longest side of a picture in pixels, 1 or more."
            )
        if not self.file.exists():
            raise InvalidInputError(f"{self.file} does not exist. Give the path of the data file.")
        check_regular(self.file)

    @abstractmethod
    def _read(self) -> Iterator[Record | Skipped]:
        """Every row of the file, in order."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.file)!r})"

    def __iter__(self) -> Iterator[Record]:
        self.report = report = SkipReport()
        for entry in self._read():
            if isinstance(entry, Skipped):
                report.add(entry)
            elif (wrong := too_long(entry)) is not None:
                report.add(wrong)
            else:
                report.used += 1
                yield entry
        self._require_some(report)

    def decoded(self) -> Iterator[tuple[Record, list[Image]]]:
        """Each record with its pictures; those that cannot be decoded are skipped and counted like any other."""
        for record in self:
            try:
                images = record.images()
            except SkippedItemError as error:
                self.report.used -= 1
                self.report.add(error.skipped)
                continue
            yield record, images
        self._require_some(self.report)

    def _require_some(self, report: SkipReport) -> None:
        if report.used:
            return
        if not report.count:
            raise InvalidInputError(f"{self.file} holds no items. Give a file with at least one.")
        raise InvalidInputError(
            f"{self.file}: nothing in it can be used; {report.summary()}. The first: {report.listed[0].sentence}"
        )
