"""The results of a search, line by line on disk: a search that is started again reads them instead of computing them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from hashlib import blake2b
from pathlib import Path
from typing import Any

from vispco.core.runs.checksums import DamagedJournalWarning, decode_line, encode_line
from vispco.core.runs.files import append_line

NAME = "journal.jsonl"


def work_key(*parts: Any) -> str:
    """A short name of a piece of work, from all that it depends on: bytes as they are, the rest as JSON."""
    digest = blake2b(digest_size=16)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else json.dumps(part, sort_keys=True).encode())
        digest.update(b"\0")
    return digest.hexdigest()


class SearchJournal:
    """Results by name. Each is on disk as soon as it is entered, as a line with a checksum.

    A line that a kill cut short, or that is damaged, is not read: what it held is worked out again. `damaged_lines`
    counts those in the middle of the file.
    """

    def __init__(self, folder: Path, *, read_only: bool = False) -> None:
        """read_only: for the ranks that do not write; what they enter reaches the disk through the first one."""
        if not read_only:
            folder.mkdir(parents=True, exist_ok=True)
        self.path, self.read_only = folder / NAME, read_only
        self.known, self.damaged_lines = _entries(self.path)
        self._new: dict[str, Any] = {}
        if self.damaged_lines and not read_only:
            warnings.warn(
                f"{self.damaged_lines} damaged line(s) of {self.path} were skipped. What they held is worked out again.",
                DamagedJournalWarning,
                stacklevel=2,
            )

    def __contains__(self, name: str) -> bool:
        return name in self.known

    def __getitem__(self, name: str) -> Any:
        return self.known[name]

    def add(self, name: str, result: Any) -> None:
        self.known[name] = self._new[name] = result
        self._write(name, result)

    def take_new(self) -> dict[str, Any]:
        """What was added since the last call, for other processes."""
        taken, self._new = self._new, {}
        return taken

    def enter(self, entries: Mapping[str, Any]) -> None:
        """Add what another process has computed."""
        for name, result in entries.items():
            if name not in self.known:
                self.known[name] = result
                self._write(name, result)

    def _write(self, name: str, result: Any) -> None:
        if not self.read_only:
            append_line(self.path, encode_line({"name": name, "result": result}).decode())


def _entries(path: Path) -> tuple[dict[str, Any], int]:
    """(results by name, how many lines are damaged); a last line without its end was cut short by a kill."""
    found: dict[str, Any] = {}
    damaged = 0
    for line in path.read_bytes().split(b"\n")[:-1] if path.is_file() else []:
        entry = decode_line(line)
        if entry is None or not isinstance(entry.get("name"), str) or "result" not in entry or "crc32" not in entry:
            damaged += bool(line.strip())
        else:
            found[entry["name"]] = entry["result"]
    return found, damaged
