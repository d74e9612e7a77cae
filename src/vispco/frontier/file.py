"""The one JSON file of a frontier: written whole or not at all, read with patience for newer versions."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from vispco.errors import InvalidInputError

FORMAT = "vispco-frontier"
VERSION = 1


def write(data: dict[str, Any], path: Path) -> None:
    """Write under a temporary name in the same folder, then rename: a reader never sees half a file."""
    text = json.dumps({"format": FORMAT, "version": VERSION, **data}, indent=1, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text + "\n")
            file.flush()
            os.fsync(file.fileno())
        mask = os.umask(0)  # mkstemp makes files private; a frontier is as readable as any other result
        os.umask(mask)
        Path(temporary).chmod(0o666 & ~mask)
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read(path: Path) -> dict[str, Any]:
    """The file's content; keys that this version does not know are left in it."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInputError(f"The frontier {path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise InvalidInputError(
            f"{path} is not JSON ({error}); a frontier file is written by Frontier.save."
        ) from error
    if not isinstance(data, dict) or data.get("format") != FORMAT or not isinstance(data.get("points"), list):
        raise InvalidInputError(f'{path} is JSON, but not a frontier: it has no "format": "{FORMAT}" with "points".')
    return data
