"""Rows of a .tsv or .csv file as bytes, with the offset of each, so that any row can be read again later; its header.

The rules are those of pandas and of Python's csv: a field that starts with a quote ends at the next single quote, a
doubled quote inside it is one quote, and tabs and line breaks inside it are text. Python's reader is not used because
it allows 128 KB in a field, unless a setting of the whole process is changed, and cannot tell where a row began.
"""

import re
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import BinaryIO, Self

from vispco.core.errors import InvalidInputError
from vispco.data.files.record import InputLimits

_OPTION = re.compile(r"[A-Z]")
_MOST_LINES = 2000  # lines in one quoted field; beyond this the quote was never meant to open a field


@dataclass(frozen=True, slots=True)
class TsvRow:
    number: int  # 0 is the header
    offset: int  # where it starts in the file
    fields: list[bytes]
    wrong: str = ""  # why the fields cannot be trusted


def _delimiter_of(path: Path) -> bytes:
    """The separator of columns: a comma in .csv files, a tab in all others."""
    return b"," if path.suffix.lower() == ".csv" else b"\t"


def read_rows(path: Path, offset: int = 0, number: int = 0) -> Iterator[TsvRow]:
    """Every row from a byte offset on. Blank lines are no rows."""
    delimiter, longest = _delimiter_of(path), InputLimits.current().max_line
    with path.open("rb") as stream:
        if offset == 0 and stream.read(3) != b"\xef\xbb\xbf":  # a byte order mark is not part of the first name
            stream.seek(0)
        elif offset:
            stream.seek(offset)
        while True:
            start = stream.tell()
            line = stream.readline(longest)
            if not line:
                return
            if not line.strip(b"\r\n"):
                continue
            yield _parse_row(stream, line, number, start, delimiter)
            number += 1


def _parse_row(stream: BinaryIO, line: bytes, number: int, start: int, delimiter: bytes) -> TsvRow:
    """The row that begins with `line`; reads on from `stream` while a quoted field is open."""
    longest = InputLimits.current().max_line
    if len(line) == longest and not line.endswith(b"\n"):
        while (rest := stream.readline(longest)) and not rest.endswith(b"\n"):
            pass
        return TsvRow(number, start, [], f"the row is longer than {longest:,} bytes")
    if b'"' not in line:
        return TsvRow(number, start, line.rstrip(b"\r\n").split(delimiter))
    after_first_line = stream.tell()
    fields: list[bytes] = []
    at = 0
    while True:
        if line[at : at + 1] != b'"':  # a quote further on in a field is only a quote
            end = line.find(delimiter, at)
            if end < 0:
                fields.append(line[at:].rstrip(b"\r\n"))
                return TsvRow(number, start, fields)
            fields.append(line[at:end])
            at = end + 1
            continue
        close = _closing_quote(line, at + 1)
        if close < 0:
            line = line[at:] + b"".join(_to_closing_quote(stream, line[at:]))
            at = 0
            close = _closing_quote(line, 1)
            if close < 0:  # take the row as lost, and go on with the line after its first
                stream.seek(after_first_line)
                return TsvRow(number, start, [], f"the quote that opens column {len(fields) + 1} is never closed")
        end = line.find(delimiter, close)
        tail = line[close + 1 :].rstrip(b"\r\n") if end < 0 else line[close + 1 : end]
        fields.append(line[at + 1 : close].replace(b'""', b'"') + tail)
        if end < 0:
            return TsvRow(number, start, fields)
        at = end + 1


def _closing_quote(line: bytes, at: int) -> int:
    """The first quote from `at` on that is not one of a pair; -1 if there is none."""
    while (found := line.find(b'"', at)) >= 0:
        if line[found + 1 : found + 2] != b'"':
            return found
        at = found + 2
    return -1


def _to_closing_quote(stream: BinaryIO, begun: bytes) -> Iterator[bytes]:
    """The lines up to the one in which an open quoted field is closed."""
    size, longest = len(begun), InputLimits.current().max_line
    for _ in range(_MOST_LINES):
        line = stream.readline(longest - size + 1)
        size += len(line)
        if not line or size > longest:
            return
        yield line
        if _closing_quote(line, 0) >= 0:  # pairs do not span lines, so each line can be judged alone
            return


class RowIndex:
    """id -> (row, byte offset). The empty name is SQLite's own temporary file, which goes when the index is closed."""

    def __init__(self) -> None:
        self._database = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        self._database.execute("PRAGMA journal_mode = OFF")
        self._database.execute("PRAGMA synchronous = OFF")
        self._database.execute("PRAGMA cache_size = -2000")  # 2 MB, whatever the length of the file
        self._database.execute("CREATE TABLE rows (id BLOB PRIMARY KEY, row INTEGER, at INTEGER) WITHOUT ROWID")
        self._database.execute("BEGIN")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._database.close()

    def add(self, identity: bytes, row: int, offset: int) -> bool:
        """Whether the id is new. The first row of an id is the one that is kept."""
        done = self._database.execute("INSERT OR IGNORE INTO rows VALUES (?, ?, ?)", (identity, row, offset))
        return done.rowcount == 1

    def find(self, identity: bytes) -> tuple[int, int] | None:
        """(row, byte offset) of the first row with that id."""
        found = self._database.execute("SELECT row, at FROM rows WHERE id = ?", (identity,)).fetchone()
        return None if found is None else (int(found[0]), int(found[1]))


@dataclass(frozen=True, slots=True)
class Header:
    """Names of columns: lower case, except those of options, which are one capital letter."""

    names: tuple[str, ...]

    @property
    def options(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name in self.names if _OPTION.fullmatch(name)))

    def at(self, *wanted: str) -> int | None:
        """The number of the first of these columns that is there."""
        return next((self.names.index(name) for name in wanted if name in self.names), None)


def read_header(path: Path, encoding: str) -> Header:
    """The header, once it has everything that an evaluation needs."""
    with path.open("rb") as stream:
        start = stream.read(2)
    if start in (b"\xff\xfe", b"\xfe\xff"):
        raise InvalidInputError(f"{path} is in UTF-16, which cannot be read row by row. Save it as UTF-8.")
    separators = "commas" if _delimiter_of(path) == b"," else "tabs"
    row = next(read_rows(path), None)
    if row is None:
        raise InvalidInputError(
            f"{path} is empty. A table starts with a header such as index, image, question, answer."
        )
    if row.wrong:
        raise InvalidInputError(f"{path}, header: {row.wrong}. Is it a table separated by {separators}?")
    try:
        names = [field.decode(encoding).strip() for field in row.fields]
    except UnicodeError as error:
        raise InvalidInputError(
            f"{path}, header: it is not in {encoding} ({error}). Save it as UTF-8, or name its encoding."
        ) from None
    header = Header(tuple(name if _OPTION.fullmatch(name) else name.lower() for name in names))
    shown = ", ".join(name[:30] for name in names[:30])
    if len(names) == 1:
        raise InvalidInputError(
            f"{path}, header: it has one column, {shown!r}. The columns must be separated by {separators}."
        )
    if header.at("question") is None:
        raise InvalidInputError(f"{path} has no question column. Its columns: {shown}.")
    if header.at("image", "image_path", "video") is None:
        raise InvalidInputError(f"{path} has no images: no image, image_path or video column. Its columns: {shown}.")
    if header.at("answers", "answer") is None:
        raise InvalidInputError(
            f"{path} has no answer column, so nothing in it can be scored. Its columns: {shown}. Test splits are "
            "published without answers: use the validation split (MMBench_DEV_EN instead of MMBench_TEST_EN)."
        )
    return header
