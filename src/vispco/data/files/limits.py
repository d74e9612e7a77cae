"""`InputLimits`: how large a picture, a text or a line of a data file may be, and whether pictures may lie elsewhere.

They hold for the whole process and for the workers that it starts, which is why they are kept in the environment.
"""

from __future__ import annotations

import json
import os
import stat
from dataclasses import asdict, dataclass, fields
from functools import lru_cache
from pathlib import Path

from vispco.core.errors import InvalidInputError

VARIABLE = "VISPCO_INPUT_LIMITS"
MAX_SIDE = 4096  # longer sides are scaled down on load; every model of the paper sees fewer pixels than 4096 × 4096


@dataclass(frozen=True)
class InputLimits:
    """Limits on the data that is read; an item that exceeds one is skipped and counted.

    allow_outside: read pictures that a data file names outside of the picture folder, by `../`, an absolute path or a
        symbolic link. max_image_bytes: of one encoded picture. max_text: characters of a question, an answer or an option.
    max_line: bytes of one line of a .jsonl or .tsv file.
    """

    allow_outside: bool = False
    max_image_bytes: int = 1 << 28
    max_text: int = 100_000
    max_line: int = 1 << 28

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or (each.name != "allow_outside" and value < 1):
                raise InvalidInputError(f"{each.name}={value!r} was given. Give a whole number, 1 or more.")

    def use(self) -> None:
        """Make these the limits of this process and of those that it starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def current(cls) -> InputLimits:
        """The limits in force."""
        return _parse(os.environ.get(VARIABLE, ""))


@lru_cache(maxsize=4)
def _parse(text: str) -> InputLimits:
    try:
        given = json.loads(text) if text else {}
        return InputLimits(**given)
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"The environment variable {VARIABLE} is not what vispco writes. Unset it.") from error


def open_inside(path: str, root: Path, *, allow_outside: bool) -> int | None:
    """A handle on a regular file inside of `root`; None if it is not one. Raises `OSError` if there is none."""
    if not allow_outside:
        real, base = os.path.realpath(path), os.path.realpath(root)
        if not real.startswith(base.rstrip(os.sep) + os.sep):
            return None
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return handle
