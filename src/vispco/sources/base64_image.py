"""Pictures written as text in a cell of a table: base64, one or a list of them."""

from __future__ import annotations

import ast
import binascii
import json
from typing import TYPE_CHECKING, Any

from vispco.sources.image import BrokenImageError
from vispco.sources.tsv_rows import read_rows

if TYPE_CHECKING:
    from pathlib import Path

SHORTEST = 64  # VLMEvalKit: a cell up to this long is not a picture but the index of the row that has it


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
