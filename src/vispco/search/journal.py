"""What a search has worked out, line by line on disk: started again, it reads instead of working it out again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

NAME = "journal.jsonl"


def work_key(*parts: Any) -> str:
    """A short name of a piece of work, from all that it depends on: bytes as they are, the rest as JSON."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
        digest.update(b"\0")
    return digest.hexdigest()


class SearchJournal:
    """Results by name. Each is on disk as soon as it is entered; a line that a kill cut short is not read."""

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """read_only: for the ranks that do not write; what they enter reaches the disk through the first one."""
        if not read_only:
            folder.mkdir(parents=True, exist_ok=True)
        self.path, self.read_only = folder / NAME, read_only
        self.known = dict(_entries(self.path))
        self._new: dict[str, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self.known

    def __getitem__(self, name: str) -> Any:
        return self.known[name]

    def add(self, name: str, result: Any) -> None:
        self.known[name] = self._new[name] = result
        self._write(name, result)

    def take_new(self) -> dict[str, Any]:
        """What was added since this was last asked, for other processes."""
        taken, self._new = self._new, {}
        return taken

    def enter(self, entries: Mapping[str, Any]) -> None:
        """What another process has worked out."""
        for name, result in entries.items():
            if name not in self.known:
                self.known[name] = result
                self._write(name, result)

    def _write(self, name: str, result: Any) -> None:
        if self.read_only:
            return
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"\n{json.dumps([name, result])}")  # the line break first: what was cut short ends there


def _entries(path: Path) -> list[tuple[str, Any]]:
    found = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            name, result = json.loads(line)
        except ValueError:  # empty, or cut short
            continue
        found.append((name, result))
    return found
