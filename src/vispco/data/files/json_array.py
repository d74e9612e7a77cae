"""The elements of a JSON list one after another, however long the file: only one element is in memory."""

from __future__ import annotations

import codecs
import json
import re
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.data.files.skipped import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CHUNK = 1 << 16
LONGEST = 1 << 26  # characters in one element; a longer one is a broken file, not a conversation

NOT_UTF8 = "this element holds bytes that are not UTF-8; save the file as UTF-8"

# A whole string (so that brackets inside it do not count), a bracket, or a comma.
TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\],]', re.DOTALL)
SPACE = re.compile(r"[ \t\r\n]*+")


class Buffer:
    """A window on the text of a file: `text[at:]` is unread. Bytes that are not UTF-8 stay visible as surrogates."""

    def __init__(self, path: Path) -> None:
        self._stream = path.open("rb")
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text, self.at, self.ended = "", 0, False

    def close(self) -> None:
        self._stream.close()

    def more(self) -> bool:
        """Reads on, at least doubling what is unread, so that a long element costs a few passes and not thousands."""
        if self.ended:
            return False
        data = self._stream.read(max(CHUNK, len(self.text) - self.at))
        self.ended = not data
        self.text = self.text[self.at :] + self._decoder.decode(data, final=self.ended)
        self.at = 0
        return True

    def peek(self) -> str:
        """The next character that is not white space; empty at the end of the file."""
        while True:
            found = SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""


def read_json_array(path: Path) -> Iterator[tuple[int, Any] | Skipped]:
    """(row, element) for each element, rows from 1. One that is malformed is skipped, as is one cut off at the end."""
    buffer = Buffer(path)
    try:
        buffer.more()
        buffer.text = buffer.text.removeprefix("\ufeff")
        yield from elements(buffer, path)
    finally:
        buffer.close()


def elements(buffer: Buffer, path: Path) -> Iterator[tuple[int, Any] | Skipped]:
    start = buffer.peek()
    if start != "[":
        given = "does not start with [" if start else "is empty"
        raise InvalidInputError(
            f"{path} {given}; expected a JSON list, [ ... ], in UTF-8. A file with one object per line is JSON Lines: "
            "name it .jsonl."
        )
    buffer.at += 1
    decoder, row = json.JSONDecoder(), 0
    while True:
        mark = buffer.peek()
        if mark == "]":
            return
        if mark == "," and row:
            buffer.at += 1
            continue
        row += 1
        if not mark:
            yield Skipped("truncated file", str(path), row, "the file ends here without the closing ]: it was cut off")
            return
        entry = element(buffer, decoder, path, row)
        yield entry
        if isinstance(entry, Skipped) and entry.reason == "truncated file":
            return


def element(buffer: Buffer, decoder: json.JSONDecoder, path: Path, row: int) -> tuple[int, Any] | Skipped:
    while True:
        wrong = "it has no end"
        try:
            value, end = decoder.raw_decode(buffer.text, buffer.at)
            # A number at the end of the window may go on in the next one: 12 of 123.
            if end < len(buffer.text) or buffer.ended:
                raw, buffer.at = buffer.text[buffer.at : end], end
                return (row, value) if is_text(raw, value) else Skipped("not UTF-8", str(path), row, NOT_UTF8)
        except (RecursionError, ValueError) as error:  # bad JSON, a thousand brackets deep, a number too long for int
            wrong = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            stop = end_of_element(buffer)
            if stop is not None:
                buffer.at = stop
                return Skipped("malformed JSON", str(path), row, f"this element is not valid JSON ({wrong})")
        if len(buffer.text) - buffer.at > LONGEST:
            raise InvalidInputError(
                f"{path}, row {row}: this element is longer than {LONGEST:,} characters ({wrong}). Check the file's "
                "brackets and quotes from this element on."
            )
        if not buffer.more():
            return Skipped("truncated file", str(path), row, f"the file ends inside this element ({wrong})")


def end_of_element(buffer: Buffer) -> int | None:
    """Where the element that starts at `buffer.at` stops, valid or not; None if that is not in the window."""
    open_brackets = ""
    for token in TOKEN.finditer(buffer.text, buffer.at):
        mark = token.group()
        if mark == '"':  # a string that is not closed within the window
            return None
        if mark in "[{":
            open_brackets += mark
        elif mark in "]}":
            opening = "[" if mark == "]" else "{"
            if opening not in open_brackets:  # the bracket of the list itself, or a stray one
                return max(token.start(), buffer.at + 1)  # what is broken is stepped over, never read twice
            open_brackets = open_brackets[: open_brackets.rindex(opening)]
            if not open_brackets:
                return token.end()
        elif mark == "," and not open_brackets:
            return max(token.start(), buffer.at + 1)
    return None


def is_text(raw: str, value: Any) -> bool:
    """Whether all of it can be written as UTF-8: no stray bytes, no half of a surrogate pair."""
    if raw.isascii() and "\\u" not in raw:
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True
