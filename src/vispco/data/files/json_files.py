"""Readers of JSON: a list (LLaVA-Instruct, ChartQA, OCRBench), or JSON Lines with one item per line.

LLaVA-Instruct: each element is `{"id", "image", "conversations": [{"from": "human", "value": "<image> ..."}, ...]}`.
Other items are questions:

| field | what it is |
|---|---|
| `image` (or `images`) | a file name, or a list of them, relative to the image folder |
| `video` | instead of `image`: a folder of frames, or a list of their files; `fps` says how many are a second [2] |
| `question` | the instruction |
| `answer` (or `answers`) | a string, or a list of accepted ones |
| `conversations` | instead of question and answer: turns as LLaVA-Instruct has them |
| `options` | `{"A": "...", "B": "..."}` or a list, for multiple choice |
| `id`, `task`, `hint` | optional; other fields are kept in `meta` |
"""

import codecs
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from vispco.core.errors import InvalidInputError
from vispco.data.files.conversation import Place, brief, field, find_shown, image_roots, read_item
from vispco.data.files.record import MAX_SIDE, InputLimits, Record, Records, Skipped

CHUNK = 1 << 16
_LONGEST = 1 << 26  # characters in one element; a longer one is a broken file, not a conversation

_NOT_UTF8 = "this element holds bytes that are not UTF-8; save the file as UTF-8"

# A whole string (so that brackets inside it do not count), a bracket, or a comma.
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*+"|["{}\[\],]', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*+")


class _Buffer:
    """A window on the text of a file: `text[at:]` is unread. Bytes that are not UTF-8 stay visible as surrogates."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")
        self.text, self.at, self.ended = "", 0, False

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
            found = _SPACE.match(self.text, self.at)
            self.at = found.end() if found else self.at
            if self.at < len(self.text):
                return self.text[self.at]
            if not self.more():
                return ""


def _read_json_array(path: Path) -> Iterator[tuple[int, Any] | Skipped]:
    """(row, element) for each element, rows from 1. One that is malformed is skipped, as is one cut off at the end."""
    with path.open("rb") as stream:
        buffer = _Buffer(stream)
        buffer.more()
        buffer.text = buffer.text.removeprefix("\ufeff")
        start = buffer.peek()
        if start != "[":
            given = "does not start with [" if start else "is empty"
            raise InvalidInputError(
                f"{path} {given}; expected a JSON list, [ ... ], in UTF-8. A file with one object per line is JSON Lines: "
                "name it .jsonl."
            )
        buffer.at += 1
        decoder, row = json.JSONDecoder(), 0
        while (mark := buffer.peek()) != "]":
            if mark == "," and row:
                buffer.at += 1
                continue
            row += 1
            if not mark:
                cut = "the file ends here without the closing ]: it was cut off"
                yield Skipped("truncated file", str(path), row, cut)
                return
            entry = _read_element(buffer, decoder, path, row)
            yield entry
            if isinstance(entry, Skipped) and entry.reason == "truncated file":
                return


def _read_element(buffer: _Buffer, decoder: json.JSONDecoder, path: Path, row: int) -> tuple[int, Any] | Skipped:
    while True:
        wrong = "it has no end"
        try:
            value, end = decoder.raw_decode(buffer.text, buffer.at)
            # A number at the end of the window may go on in the next one: 12 of 123.
            if end < len(buffer.text) or buffer.ended:
                raw, buffer.at = buffer.text[buffer.at : end], end
                return (row, value) if _is_text(raw, value) else Skipped("not UTF-8", str(path), row, _NOT_UTF8)
        except (RecursionError, ValueError) as error:  # bad JSON, a thousand brackets deep, a number too long for int
            wrong = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            stop = _end_of_element(buffer)
            if stop is not None:
                buffer.at = stop
                return Skipped("malformed JSON", str(path), row, f"this element is not valid JSON ({wrong})")
        if len(buffer.text) - buffer.at > _LONGEST:
            raise InvalidInputError(
                f"{path}, row {row}: this element is longer than {_LONGEST:,} characters ({wrong}). Check the file's "
                "brackets and quotes from this element on."
            )
        if not buffer.more():
            return Skipped("truncated file", str(path), row, f"the file ends inside this element ({wrong})")


def _end_of_element(buffer: _Buffer) -> int | None:
    """The end of the element that starts at `buffer.at`, valid or not; None if it is not in the window."""
    open_brackets = ""
    for token in _TOKEN.finditer(buffer.text, buffer.at):
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


def _is_text(raw: str, value: Any) -> bool:
    """Whether all of it can be written as UTF-8: no stray bytes, no half of a surrogate pair."""
    if raw.isascii() and "\\u" not in raw:
        return True
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


class LlavaInstruct(Records):
    """The items of a JSON list. `images` is the folder that holds the pictures (default: beside the file)."""

    def __init__(
        self, file: str | Path, images: str | Path | None = None, *, task: str = "instruct", max_side: int = MAX_SIDE
    ) -> None:
        super().__init__(file, task=task, max_side=max_side)
        # ChartQA's pictures are in `png`, those of OCRBench in `OCRBench_Images`.
        published = (self.file.parent / "png", self.file.parent / f"{self.file.stem}_Images")
        self.roots = image_roots(self.file, images, published)

    def _read(self) -> Iterator[Record | Skipped]:
        for entry in _read_json_array(self.file):
            yield entry if isinstance(entry, Skipped) else self._record(*entry)

    def _record(self, row: int, element: Any) -> Record | Skipped:
        """One element as a record, or why it is none. An element of a list that asks nothing is a conversation."""
        place = Place(self.roots, str(self.file), row, self.max_side)
        if not isinstance(element, dict):
            return place.skip("malformed item", f"it is {brief(element)}; a conversation is an object {{...}}")
        shown = find_shown(element, place)
        if isinstance(shown, Skipped):
            return shown
        if not isinstance(self, Jsonl) and field(element, "question") is None and "messages" not in element:
            element = {"conversations": None, **element}
        return read_item(element, shown, place, source=self.file.stem, task=self.task)


class Jsonl(LlavaInstruct):
    """The lines of one file; empty lines are passed over."""

    def _read(self) -> Iterator[Record | Skipped]:
        longest = InputLimits.current().max_line
        with self.file.open("rb") as stream:
            row = 0
            while line := stream.readline(longest):
                line = line.removeprefix(b"\xef\xbb\xbf") if row == 0 else line
                if not line.strip():
                    continue
                row += 1
                if len(line) == longest and not line.endswith(b"\n"):
                    while (rest := stream.readline(longest)) and not rest.endswith(b"\n"):
                        pass
                    wrong = f"this line is longer than {longest:,} bytes (--max-line)"
                    yield Skipped("malformed JSON", str(self.file), row, wrong)
                    continue
                yield self._line(row, line)

    def _line(self, row: int, line: bytes) -> Record | Skipped:
        try:
            text = line.decode("utf-8", "surrogateescape")
            element = json.loads(text)
        except (RecursionError, ValueError) as error:
            wrong = f"this line cannot be read ({error})"
            if isinstance(error, json.JSONDecodeError):
                cut = "" if line.endswith(b"\n") else "; the file ends here and may be cut off"
                wrong = f"this line is not valid JSON ({error.msg}){cut}"
            return Skipped("malformed JSON", str(self.file), row, wrong)
        if not _is_text(text, element):
            return Skipped("not UTF-8", str(self.file), row, _NOT_UTF8)
        return self._record(row, element)
