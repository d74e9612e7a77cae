"""Where the picture of a table's row is: in the row, in another row that it names, or in a file."""

from __future__ import annotations

import ast
import binascii
import json
from functools import partial
from typing import TYPE_CHECKING, Any

from vispco.data.files.image import BrokenImageError, looks_like_image
from vispco.data.files.image_handle import ImageHandle
from vispco.data.files.shown import Place, Shown, find_handles, find_shown
from vispco.data.files.skipped import Skipped
from vispco.data.files.tsv_rows import read_rows

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vispco.data.files.tsv_header import Header
    from vispco.data.files.tsv_rows import RowIndex, TsvRow

SHORTEST = 64  # VLMEvalKit: a cell up to this long is not a picture but the index of the row that has it
STEPS = 4  # a row may name a row that names a row; longer chains are circles


class TsvImages:
    """Handles for the pictures of one table, while it is read once."""

    def __init__(self, file: Path, header: Header, index: RowIndex, roots: list[Path], max_side: int) -> None:
        self.file, self.header, self.index, self.roots, self.max_side = file, header, index, roots, max_side
        self._complete = False

    def handles(self, row: TsvRow) -> tuple[ImageHandle, ...] | Skipped:
        """A handle for each picture of the row, or why it has none that can be used."""
        cells = [] if self.header.image is None else image_cells(row.fields[self.header.image])
        if cells:
            found: list[ImageHandle] = []
            for place, cell in enumerate(cells):
                try:
                    found += self._in_table(row, place, cell)
                except BrokenImageError as error:
                    reason = "broken base64" if "base64" in str(error) else "broken image"
                    return Skipped(reason, str(self.file), row.number, str(error))
            return tuple(found)
        column = self.header.image_path
        text = "" if column is None else row.fields[column].decode("utf-8", "replace").strip()
        names = parse_list(text) or ([text] if text else [])
        return find_handles(names, Place(self.roots, str(self.file), row.number, self.max_side))

    def video(self, row: TsvRow, cells: Mapping[str, str]) -> Shown | Skipped | None:
        """The frames that the column `video` names; None where it names none."""
        text = cells.get("video", "").strip()
        if text.lower() in ("", "nan"):
            return None
        element = {"video": parse_list(text) or text, "fps": cells.get("fps", "").strip() or None}
        return find_shown(element, Place(self.roots, str(self.file), row.number, self.max_side))

    def _in_table(self, row: TsvRow, place: int, cell: bytes) -> list[ImageHandle]:
        """The picture in a cell, or all pictures of the row whose index the cell holds."""
        offset, number, cells = row.offset, row.number, {place: cell}
        for _ in range(STEPS):
            first = next(iter(cells.values()), b"")
            if len(first) > SHORTEST or self._is_tiny_image(first):
                break
            target = self._find(first)
            if target is None:
                raise BrokenImageError(
                    f"its image is a text of {len(first)} characters, neither base64 nor the index of a row of this file"
                )
            number, offset = target
            cells = dict(enumerate(self._cells_of(offset)))
        if not cells:
            raise BrokenImageError(f"its image is that of row {number}, which has none")
        return [self._handle(row, number, offset, place, cell) for place, cell in cells.items()]

    def _handle(self, row: TsvRow, number: int, offset: int, place: int, cell: bytes) -> ImageHandle:
        """The picture at a place of the row `number`, for the row that refers to it."""
        if not looks_like_image(decode_base64(cell)[:16]):
            source = "" if number == row.number else f" (it is in row {number})"
            raise BrokenImageError(f"its image is base64, but of something that is not an image{source}")
        read = partial(read_cell, self.file, offset, self.header.image or 0, place)
        name = "its image" if number == row.number else f"its image in row {number}"
        return ImageHandle(read, name, str(self.file), row.number, self.max_side)

    def _is_tiny_image(self, cell: bytes) -> bool:
        """A picture of 1 × 1 can be shorter than VLMEvalKit's limit for indices."""
        if self.index.find(cell) is not None:
            return False
        try:
            return looks_like_image(decode_base64(cell)[:16])
        except BrokenImageError:
            return False

    def _find(self, identity: bytes) -> tuple[int, int] | None:
        found = self.index.find(identity)
        if found is None and not self._complete:
            self._complete = True  # the row may stand further down: note where all of them are, once
            for row in read_rows(self.file):
                if row.number and self.header.index is not None and len(row.fields) == len(self.header.names):
                    self.index.add(row.fields[self.header.index].strip(), row.number, row.offset)
            found = self.index.find(identity)
        return found

    def _cells_of(self, offset: int) -> list[bytes]:
        row = next(read_rows(self.file, offset, number=1))
        return image_cells(row.fields[self.header.image or 0])


def show(cell: bytes) -> str:
    return repr(cell.decode("utf-8", "replace"))


def decode_base64(cell: bytes) -> bytes:
    """The bytes of a picture; line breaks and a `data:...;base64,` prefix are allowed, any other stray byte is not."""
    if cell.startswith(b"data:"):
        cell = cell.partition(b",")[2]
    try:
        return binascii.a2b_base64(cell.translate(None, b" \r\n\t"), strict_mode=True)
    except (binascii.Error, ValueError) as error:
        raise BrokenImageError(f"the image is not valid base64 ({error})") from None


def parse_list(text: str) -> list[Any] | None:
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


def image_cells(cell: bytes) -> list[bytes]:
    """The pictures of a cell, still as text; a cell that is no list holds one."""
    if cell.lstrip().startswith(b"["):
        values = parse_list(cell.decode("ascii", "replace"))
        if values is not None:
            return [str(value).encode() for value in values]
    return [cell.strip()] if cell.strip() else []


def read_cell(path: Path, offset: int, column: int, place: int) -> bytes:
    """Reads one picture again from the row at `offset`: what an image handle of a table does when it is looked at."""
    for row in read_rows(path, offset, number=1):
        try:
            return decode_base64(image_cells(row.fields[column])[place])
        except IndexError:
            break
    raise BrokenImageError("the row is no longer there; the file has changed since it was first read")
