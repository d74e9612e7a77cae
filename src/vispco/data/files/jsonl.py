"""Plain JSON Lines: one object per line.

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

from __future__ import annotations

import json
from string import ascii_uppercase
from typing import TYPE_CHECKING, Any

from vispco.data.files.conversation import ConversationError, brief, make_turn, place_images
from vispco.data.files.json_array import NOT_UTF8, is_text
from vispco.data.files.limits import InputLimits
from vispco.data.files.llava_instruct import LlavaInstruct
from vispco.data.files.record import Record
from vispco.data.files.shown import Place, find_shown
from vispco.data.files.skipped import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator

FIELDS = {"id", "task", "image", "images", "video", "fps", "question", "answer", "answers", "options", "hint"}


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
                    yield self._wrong("malformed JSON", row, f"this line is longer than {longest:,} bytes (--max-line)")
                    continue
                yield self._line(row, line)

    def _wrong(self, reason: str, row: int, detail: str, identity: str = "") -> Skipped:
        return Skipped(reason, str(self.file), row, detail, identity)

    def _line(self, row: int, line: bytes) -> Record | Skipped:
        try:
            text = line.decode("utf-8", "surrogateescape")
            element = json.loads(text)
        except json.JSONDecodeError as error:
            cut = "" if line.endswith(b"\n") else "; the file ends here and may be cut off"
            return self._wrong("malformed JSON", row, f"this line is not valid JSON ({error.msg}){cut}")
        except (RecursionError, ValueError) as error:
            return self._wrong("malformed JSON", row, f"this line cannot be read ({error})")
        if not is_text(text, element):
            return self._wrong("not UTF-8", row, NOT_UTF8)
        if isinstance(element, dict) and "conversations" not in element and "messages" not in element:
            return self._question(row, element)
        return self.record(row, element)

    def _question(self, row: int, element: dict[str, Any]) -> Record | Skipped:
        shown = find_shown(element, Place(self.roots, str(self.file), row, self.max_side))
        if isinstance(shown, Skipped):
            return shown
        question = element.get("question")
        if not isinstance(question, str) or not question.strip():
            return self._wrong(
                "no question", row, f"its question is {brief(question)}; give question, or conversations"
            )
        references = as_answers(element.get("answer", element.get("answers")))
        if not references:
            return self._wrong("no answer", row, "it has no answer; give answer, answers or conversations")
        try:
            turns = place_images([make_turn(question, references[0], shown.placeholder)], shown.number)
        except ConversationError as error:
            return self._wrong("malformed conversation", row, str(error))
        given = element.get("id")
        return Record(
            id=f"{self.file.stem}/{row}" if given is None else f"{given}#{row}",
            task=str(element.get("task") or self.task),
            handles=shown.handles,
            frames_per_second=shown.frames_per_second,
            turns=turns,
            references=references,
            options=as_options(element.get("options")),
            hint=str(element.get("hint") or ""),
            prompt=turns[0].instruction,
            meta={key: value for key, value in element.items() if key not in FIELDS},
            file=str(self.file),
            row=row,
        )


def as_answers(value: Any) -> tuple[str, ...]:
    """Accepted answers from a value or a list; numbers become text, empty ones are dropped."""
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(str(entry).strip() for entry in values if entry is not None and str(entry).strip())


def as_options(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key).strip().upper(): str(text) for key, text in value.items()}
    if isinstance(value, list):
        return {letter: str(text) for letter, text in zip(ascii_uppercase, value, strict=False)}
    return {}
