"""Which ids a file has and where their rows start, for files of any length: kept on disk, not in memory."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from types import TracebackType


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
