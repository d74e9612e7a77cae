"""The depth of every token as a short text for the page."""

from __future__ import annotations

import base64
from collections.abc import Iterable


def pack(depth: Iterable[int]) -> str:
    """One byte per token: how many layers process it."""
    return base64.b64encode(bytes(depth)).decode()


def unpack(depth: str, rows: int, columns: int) -> list[list[int]]:
    """The depth of every token, [rows][columns]."""
    values = base64.b64decode(depth)
    return [list(values[row * columns : (row + 1) * columns]) for row in range(rows)]
