"""VLMEvalKit's tables: one question a row, the picture in the row itself as base64.

| column | what it is |
|---|---|
| `index` | the id |
| `image` | base64, a list of base64, or the index of another row that has the picture |
| `image_path` | instead of `image`: a file name, or a list |
| `video`, `fps` | instead of `image`: a folder of frames, or a list of their files, and how many are a second [2] |
| `question`, `hint` | the words |
| `A`, `B`, ... | the options of a multiple-choice question |
| `answers`, `answer` | a letter, a text, or a list of texts; `answers` is preferred where a table has both |
| `category`, `split`, ... | kept in `meta` |
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vispco.core.errors import InvalidInputError
from vispco.data.files.image import MAX_SIDE
from vispco.data.files.jsonl import as_answers
from vispco.data.files.record import Record, Turn
from vispco.data.files.records import Records
from vispco.data.files.shown import Shown
from vispco.data.files.skipped import Skipped
from vispco.data.files.tsv_header import Header, read_header
from vispco.data.files.tsv_images import TsvImages, parse_list
from vispco.data.files.tsv_rows import RowIndex, read_rows

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vispco.data.files.tsv_rows import TsvRow

NOT_META = {"index", "image", "question", "hint", "answer", "answers"}


class Tsv(Records):
    """The rows of one table. `images` is the folder of `image_path`; by default the table's own, or `images` in it."""

    def __init__(
        self,
        file: str | Path,
        images: str | Path | None = None,
        *,
        task: str = "",
        encoding: str = "utf-8",
        max_side: int = MAX_SIDE,
    ) -> None:
        super().__init__(file, task=task or Path(file).stem, max_side=max_side)
        try:
            "x".encode(encoding)
        except LookupError:
            raise InvalidInputError(f"Unknown encoding {encoding!r}. Give a name such as utf-8 or cp1252.") from None
        self.encoding = encoding
        folder = self.file.parent
        self.roots = [folder, folder / "images", *(folder / "images" / name for name in image_folders(self.file.stem))]
        if images is not None:
            if not Path(images).is_dir():
                raise InvalidInputError(f"The image folder {images} of {file} does not exist.")
            self.roots = [Path(images)]

    def _read(self) -> Iterator[Record | Skipped]:
        header = read_header(self.file, self.encoding)
        with RowIndex() as index:
            images = TsvImages(self.file, header, index, self.roots, self.max_side)
            for row in read_rows(self.file):
                if row.number:
                    yield self._record(row, header, index, images)

    def _record(self, row: TsvRow, header: Header, index: RowIndex, images: TsvImages) -> Record | Skipped:
        wrong = row.wrong or wrong_length(row, header)
        if wrong:
            return self._skip("malformed row", row, wrong)
        identity = str(row.number).encode() if header.index is None else row.fields[header.index].strip()
        if not identity:
            return self._skip("malformed row", row, "its index is empty")
        if not index.add(identity, row.number, row.offset):
            first = index.find(identity)
            if first is not None and first[0] != row.number:
                detail = f"its index {identity.decode('utf-8', 'replace')!r} is also that of row {first[0]}"
                return self._skip("duplicate id", row, f"{detail}; only the first is used")
        cells = self._texts(row, header)
        if isinstance(cells, Skipped):
            return cells
        question = cells["question"]
        references = read_answers(cells.get("answers", "")) or read_answers(cells.get("answer", ""))
        if not question.strip():
            return self._skip("no question", row, "its question is empty")
        if not references:
            return self._skip("no answer", row, "its answer is empty, so it cannot be scored")
        shown = images.video(row, cells)
        if shown is None:
            handles = images.handles(row)
            shown = handles if isinstance(handles, Skipped) else Shown(handles)
        if isinstance(shown, Skipped):
            return shown
        answer = next(text for text in references if text)
        return Record(
            id=identity.decode(self.encoding),
            task=self.task,
            handles=shown.handles,
            frames_per_second=shown.frames_per_second,
            turns=(Turn(question, answer, (0,) * shown.number),),
            references=references,
            options={letter: cells[letter] for letter in header.options if not is_missing(cells[letter])},
            hint="" if is_missing(cells.get("hint", "")) else cells["hint"].strip(),
            prompt=question,
            meta={name: text for name, text in cells.items() if name not in NOT_META and name not in header.options},
            file=str(self.file),
            row=row.number,
        )

    def _texts(self, row: TsvRow, header: Header) -> dict[str, str] | Skipped:
        """Every cell but the picture's, as text."""
        cells: dict[str, str] = {}
        for column, (name, field) in enumerate(zip(header.names, row.fields, strict=True)):
            if column == header.image or name in cells:
                continue
            if b"\0" in field:
                return self._skip("NUL byte", row, f"its {name} holds a NUL byte; the file is damaged")
            try:
                cells[name] = field.decode(self.encoding)
            except UnicodeError as error:
                detail = f"its {name} is not in {self.encoding} ({error}); save the file as UTF-8, or name its encoding"
                return self._skip(f"not {self.encoding}", row, detail)
        return cells

    def _skip(self, reason: str, row: TsvRow, detail: str) -> Skipped:
        return Skipped(reason, str(self.file), row.number, detail)


def wrong_length(row: TsvRow, header: Header) -> str:
    given, wanted = len(row.fields), len(header.names)
    if given < wanted:
        return f"it has {given} columns, the header {wanted}: the row, or the file, is cut off"
    if given > wanted:
        return f"it has {given} columns, the header {wanted}: a tab in a text must stand in quotes"
    return ""


def read_answers(cell: str) -> tuple[str, ...]:
    """All accepted answers: VQA sets write a list, of texts or of `{"answer": text}`.

    A person's empty answer stays in the list, because VQA accuracy divides by the number of people. A list of nothing but
    empty answers is no answer.
    """
    values = parse_list(cell)
    if values is None:
        return as_answers(cell)
    texts = [value.get("answer") if isinstance(value, dict) else value for value in values]
    found = tuple("" if text is None else str(text).strip() for text in texts)
    return found if any(found) else ()


def is_missing(cell: str) -> bool:
    """Whether a cell is empty. pandas writes a missing value as nan."""
    return cell.strip().lower() in ("", "nan")


def image_folders(stem: str) -> list[str]:
    """Folders in `images` that VLMEvalKit may have written a table's pictures to.

    For X_local.tsv that is X. Tables that share pictures share a folder: MMBench_DEV_EN and MMBench_TEST_EN have MMBench.
    """
    parts = stem.removesuffix("_local").split("_")
    names = ["_".join(parts[:size]) for size in range(len(parts), 0, -1)]
    return list(dict.fromkeys([stem, *names, *([f"{parts[0]}_V11"] if "V11" in parts else [])]))
