"""The header of a VLMEvalKit table: which column is which, and a clear sentence where one is missing."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vispco.core.errors import InvalidInputError
from vispco.data.files.tsv_rows import read_rows

if TYPE_CHECKING:
    from pathlib import Path

OPTION = re.compile(r"[A-Z]")


@dataclass(frozen=True, slots=True)
class Header:
    """Names are lower case, except those of the options, which are one capital letter. The rest are column numbers."""

    names: tuple[str, ...]
    index: int | None
    image: int | None
    image_path: int | None
    question: int | None
    answer: int | None
    options: tuple[str, ...]

    @classmethod
    def from_names(cls, given: list[str]) -> Header:
        names = tuple(name if OPTION.fullmatch(name) else name.lower() for name in given)

        def at(*wanted: str) -> int | None:
            return next((names.index(name) for name in wanted if name in names), None)

        return cls(
            names,
            index=at("index", "id", "question_id"),
            image=at("image"),
            image_path=at("image_path"),
            question=at("question"),
            answer=at("answers", "answer"),
            options=tuple(dict.fromkeys(name for name in names if OPTION.fullmatch(name))),
        )


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
    except UnicodeError as error:
        raise InvalidInputError(
            f"{path}, header: it is not in {encoding} ({error}). Save it as UTF-8, or name its encoding."
        ) from None
    header = Header.from_names(names)
    shown = ", ".join(name[:30] for name in names[:30])
    if len(names) == 1:
        raise InvalidInputError(f"{path}, header: it has one column, {shown!r}. The columns must be separated by tabs.")
    if header.question is None:
        raise InvalidInputError(f"{path} has no question column. Its columns: {shown}.")
    if header.image is None and header.image_path is None and "video" not in header.names:
        raise InvalidInputError(f"{path} has no images: no image, image_path or video column. Its columns: {shown}.")
    if header.answer is None:
        raise InvalidInputError(
            f"{path} has no answer column, so nothing in it can be scored. Its columns: {shown}. Test splits are "
            "published without answers: use the validation split (MMBench_DEV_EN instead of MMBench_TEST_EN)."
        )
    return header
