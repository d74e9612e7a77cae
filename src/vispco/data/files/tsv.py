"""VLMEvalKit's tables (.tsv), and .csv with the same columns: one question a row, the picture in it as base64.

| column | what it is |
|---|---|
| `index` | the id |
| `image` | base64, a list of base64, the index of another row that has the picture, or a file name |
| `image_path` | instead of `image`: a file name, or a list |
| `video`, `fps` | instead of `image`: a folder of frames, or a list of their files, and how many are a second [2] |
| `question`, `hint` | the words |
| `A`, `B`, ... | the options of a multiple-choice question |
| `answers`, `answer` | a letter, a text, or a list of texts; `answers` is preferred where a table has both |
| `category`, `split`, ... | kept in `meta` |
"""

import ast
import binascii
import json
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.data.files.conversation import IMAGE_FILES, Place, Shown, as_answers, find_handles, find_shown, image_roots
from vispco.data.files.pictures import BrokenImageError, ImageHandle, looks_like_image
from vispco.data.files.record import MAX_SIDE, Record, Records, Skipped, Turn
from vispco.data.files.tsv_rows import Header, RowIndex, TsvRow, read_header, read_rows

_SHORTEST = 64  # VLMEvalKit: a cell up to this long is not a picture but the index of the row that has it
_NAMED = tuple(ending.encode() for ending in IMAGE_FILES)
_IDS = ("index", "id", "question_id")
_STEPS = 4  # a row may name a row that names a row; longer chains are circles


class _TsvImages:
    """Handles for the pictures of one table, while it is read once."""

    def __init__(self, file: Path, header: Header, index: RowIndex, roots: list[Path], max_side: int) -> None:
        self.file, self.header, self.index, self.roots, self.max_side = file, header, index, roots, max_side
        self._image, self._path, self._id = (header.at(*names) for names in (("image",), ("image_path",), _IDS))
        self._complete = False

    def handles(self, row: TsvRow) -> tuple[ImageHandle, ...] | Skipped:
        """A handle for each picture of the row, or why it has none that can be used."""
        cells = [] if self._image is None else _image_cells(row.fields[self._image])
        place = Place(self.roots, str(self.file), row.number, self.max_side)
        if cells and all(cell.lower().endswith(_NAMED) for cell in cells):  # base64 has no full stop
            return find_handles([cell.decode("utf-8", "replace") for cell in cells], place)
        if cells:
            found: list[ImageHandle] = []
            for number, cell in enumerate(cells):
                try:
                    found += self._in_table(row, number, cell)
                except BrokenImageError as error:
                    reason = "broken base64" if "base64" in str(error) else "broken image"
                    return Skipped(reason, str(self.file), row.number, str(error))
            return tuple(found)
        text = "" if self._path is None else row.fields[self._path].decode("utf-8", "replace").strip()
        names = _parse_list(text) or ([text] if text else [])
        return find_handles(names, place)

    def video(self, row: TsvRow, cells: Mapping[str, str]) -> Shown | Skipped | None:
        """The frames that the column `video` names; None where it names none."""
        text = cells.get("video", "").strip()
        if text.lower() in ("", "nan"):
            return None
        element = {"video": _parse_list(text) or text, "fps": cells.get("fps", "").strip() or None}
        return find_shown(element, Place(self.roots, str(self.file), row.number, self.max_side))

    def _in_table(self, row: TsvRow, place: int, cell: bytes) -> list[ImageHandle]:
        """The picture in a cell, or all pictures of the row whose index the cell holds."""
        offset, number, cells = row.offset, row.number, {place: cell}
        for _ in range(_STEPS):
            first = next(iter(cells.values()), b"")
            if len(first) > _SHORTEST or self._is_tiny_image(first):
                break
            target = self._find(first)
            if target is None:
                raise BrokenImageError(
                    f"its image is a text of {len(first)} characters, neither base64 nor the index of a row of this file"
                )
            number, offset = target
            cells = dict(enumerate(_image_cells(next(read_rows(self.file, offset, number=1)).fields[self._image or 0])))
        if not cells:
            raise BrokenImageError(f"its image is that of row {number}, which has none")
        return [self._handle(row, number, offset, place, cell) for place, cell in cells.items()]

    def _handle(self, row: TsvRow, number: int, offset: int, place: int, cell: bytes) -> ImageHandle:
        """The picture at a place of the row `number`, for the row that refers to it."""
        if not looks_like_image(_decode_base64(cell)[:16]):
            source = "" if number == row.number else f" (it is in row {number})"
            raise BrokenImageError(f"its image is base64, but of something that is not an image{source}")
        read = partial(_read_cell, self.file, offset, self._image or 0, place)
        name = "its image" if number == row.number else f"its image in row {number}"
        return ImageHandle(read, name, str(self.file), row.number, self.max_side)

    def _is_tiny_image(self, cell: bytes) -> bool:
        """A picture of 1 × 1 can be shorter than VLMEvalKit's limit for indices."""
        if self.index.find(cell) is not None:
            return False
        try:
            return looks_like_image(_decode_base64(cell)[:16])
        except BrokenImageError:
            return False

    def _find(self, identity: bytes) -> tuple[int, int] | None:
        found = self.index.find(identity)
        if found is None and not self._complete:
            self._complete = True  # the row may stand further down: note where all of them are, once
            for row in read_rows(self.file):
                if row.number and self._id is not None and len(row.fields) == len(self.header.names):
                    self.index.add(row.fields[self._id].strip(), row.number, row.offset)
            found = self.index.find(identity)
        return found


def _decode_base64(cell: bytes) -> bytes:
    """The bytes of a picture; line breaks and a `data:...;base64,` prefix are allowed, any other stray byte is not."""
    if cell.startswith(b"data:"):
        cell = cell.partition(b",")[2]
    try:
        return binascii.a2b_base64(cell.translate(None, b" \r\n\t"), strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise BrokenImageError(f"the image is not valid base64 ({error})") from None


def _parse_list(text: str) -> list[Any] | None:
    """A list written as JSON or as Python writes it; None if the text is something else."""
    text = text.strip()
    if not (text.startswith("[") and text.endswith("]")):
        return None
    for parse in (json.loads, ast.literal_eval):
        try:
            value = parse(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value if isinstance(value, list) else None
    return None


def _image_cells(cell: bytes) -> list[bytes]:
    """The pictures of a cell, still as text; a cell that is no list holds one."""
    if cell.lstrip().startswith(b"["):
        values = _parse_list(cell.decode("ascii", "replace"))
        if values is not None:
            return [str(value).encode() for value in values]
    return [cell.strip()] if cell.strip() else []


def _read_cell(path: Path, offset: int, column: int, place: int) -> bytes:
    """Reads one picture again from the row at `offset`: the source of a table's image handles."""
    for row in read_rows(path, offset, number=1):
        try:
            return _decode_base64(_image_cells(row.fields[column])[place])
        except IndexError:
            break
    raise BrokenImageError("the row is no longer there; the file has changed since it was first read")


_NOT_META = {"index", "image", "question", "hint", "answer", "answers"}


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
        # VLMEvalKit writes the pictures of X_local.tsv to images/X. Tables that share pictures share a folder:
        # MMBench_DEV_EN and MMBench_TEST_EN have images/MMBench.
        parts = self.file.stem.removesuffix("_local").split("_")
        names = [self.file.stem, *("_".join(parts[:size]) for size in range(len(parts), 0, -1))]
        names += [f"{parts[0]}_V11"] if "V11" in parts else []
        self.roots = image_roots(self.file, images, (self.file.parent / "images" / name for name in names))

    def _read(self) -> Iterator[Record | Skipped]:
        header = read_header(self.file, self.encoding)
        with RowIndex() as index:
            images = _TsvImages(self.file, header, index, self.roots, self.max_side)
            for row in read_rows(self.file):
                if row.number:
                    yield self._record(row, header, index, images)

    def _record(self, row: TsvRow, header: Header, index: RowIndex, images: _TsvImages) -> Record | Skipped:
        given, wanted = len(row.fields), len(header.names)
        if row.wrong:
            return self._skip("malformed row", row, row.wrong)
        if given != wanted:
            why = "the row, or the file, is cut off" if given < wanted else "a tab in a text must stand in quotes"
            return self._skip("malformed row", row, f"it has {given} columns, the header {wanted}: {why}")
        column = header.at(*_IDS)
        identity = str(row.number).encode() if column is None else row.fields[column].strip()
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
        references = _read_answers(cells.get("answers", "")) or _read_answers(cells.get("answer", ""))
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
            options={letter: cells[letter] for letter in header.options if not _is_missing(cells[letter])},
            hint="" if _is_missing(cells.get("hint", "")) else cells["hint"].strip(),
            prompt=question,
            meta={name: text for name, text in cells.items() if name not in _NOT_META and name not in header.options},
            file=str(self.file),
            row=row.number,
        )

    def _texts(self, row: TsvRow, header: Header) -> dict[str, str] | Skipped:
        """Every cell but the picture's, as text."""
        cells: dict[str, str] = {}
        for column, (name, field) in enumerate(zip(header.names, row.fields, strict=True)):
            if column == header.at("image") or name in cells:
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


def _read_answers(cell: str) -> tuple[str, ...]:
    """All accepted answers: VQA sets write a list, of texts or of `{"answer": text}`.

    A person's empty answer stays in the list, because VQA accuracy divides by the number of people. A list of nothing but
    empty answers is no answer.
    """
    values = _parse_list(cell)
    if values is None:
        return as_answers(cell)
    texts = [value.get("answer") if isinstance(value, dict) else value for value in values]
    found = tuple("" if text is None else str(text).strip() for text in texts)
    return found if any(found) else ()


def _is_missing(cell: str) -> bool:
    """Whether a cell is empty. pandas writes a missing value as nan."""
    return cell.strip().lower() in ("", "nan")
