"""The header of a VLMEvalKit table: which column is which, and a clear sentence where one is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vispco.errors import InvalidInputError
from vispco.sources.tsv_rows import read_rows

if TYPE_CHECKING:
    from pathlib import Path

OPTION = re.compile(r"[A-Z]")
WORDS = {"index", "question", "hint", "answer"}


@dataclass(frozen=True, slots=True)
class Header:
    """Column numbers by name. Names are lower case, except those of the options, which are one capital letter."""

    names: tuple[str, ...]

    def at(self, *names: str) -> int | None:
        """The column with the first of these names that the table has."""
        return next((self.names.index(name) for name in names if name in self.names), None)

    @property
    def index(self) -> int | None:
        return self.at("index", "id", "question_id")

    @property
    def image(self) -> int | None:
        return self.at("image")

    @property
    def image_path(self) -> int | None:
        return self.at("image_path")

    @property
    def answer(self) -> int | None:
        return self.at("answer", "answers")

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if OPTION.fullmatch(name))


def read_header(path: Path, encoding: str) -> Header:
    """The header, once it has everything that an evaluation needs."""
    with path.open("rb") as stream:
        start = stream.read(2)
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInputError(f"{path} is in UTF-16, which cannot be read row by row. Save it as UTF-8.")
    row = next(read_rows(path), None)
    if row is None:
        raise InvalidInputError(
            f"{path} is empty. A table starts with a header such as index, image, question, answer."
        )
    if row.wrong:
        raise InvalidInputError(f"{path}, header: {row.wrong}. Is it a tab-separated table?")
    try:
        names = [field.decode(encoding).strip() for field in row.fields]
    except UnicodeDecodeError as error:
        raise InvalidInputError(
            f"{path}, header: it is not in {encoding} ({error.reason}). Save it as UTF-8, or name its encoding."
        ) from None
    header = Header(tuple(name if OPTION.fullmatch(name) else name.lower() for name in names))
    shown = ", ".join(name[:30] for name in names[:30])
    if len(names) == 1:
        raise InvalidInputError(f"{path}, header: it has one column, {shown!r}. The columns must be separated by tabs.")
    if header.at("question") is None:
        raise InvalidInputError(f"{path} has no question column. Its columns: {shown}.")
    if header.image is None and header.image_path is None:
        raise InvalidInputError(f"{path} has no images: no image or image_path column. Its columns: {shown}.")
    if header.answer is None:
        raise InvalidInputError(
            f"{path} has no answer column, so nothing in it can be scored. Its columns: {shown}. Test splits are "
            "published without answers: use the validation split (MMBench_DEV_EN instead of MMBench_TEST_EN)."
        )
    return header
