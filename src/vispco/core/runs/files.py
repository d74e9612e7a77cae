"""Files that are written whole or not at all, read with a sentence on what is wrong, and known by a digest.

Every file of the package is written through this module. A write goes to a temporary name in the same folder, is forced
to the disk and then renamed, so that a reader sees the old file or the new one. A failure removes the temporary file.
"""

import errno
import glob
import hashlib
import itertools
import json
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any

from safetensors import SafetensorError

from vispco.core.errors import InvalidInputError
from vispco.core.runs.checksums import is_whole, sealed
from vispco.core.runs.provenance import machine_id, process_start

_TEMPORARY = re.compile(r"\..*\.vispco-(\d+)-\d+(?:-([0-9a-f]{8}))?\.tmp")  # .NAME.vispco-PID-NUMBER-MACHINE.tmp
_NAME_LENGTH = 80  # bytes of a file's name that its temporary name repeats
BLOCK = 1 << 16

_numbers = itertools.count()


class FileWriteError(InvalidInputError, OSError):
    """A file cannot be written; the message names it and the reason."""


class FileReadError(InvalidInputError, OSError):
    """A file cannot be opened or read; the message names it and the reason."""


class DamagedFileError(InvalidInputError, OSError):
    """The content of a file cannot be what was written; the message names the file."""


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary path in the same folder, which becomes `path` when the block ends and is removed when it fails.

    For writers that take a path (safetensors, matplotlib); text, JSON and bytes have functions of their own.
    """
    try:
        target = _target(Path(path))
        temporary = target.with_name(temporary_name(target.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        same_name = temporary.name.rpartition(".vispco-")[0]
        for left in target.parent.glob(f"{glob.escape(same_name)}.vispco-*.tmp"):
            _remove_if_abandoned(left)  # of an earlier try that was killed
        try:
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.replace(target)
            # Force a rename to the disk, where the system can.
            with suppress(OSError):
                handle = os.open(target.parent, os.O_RDONLY)
                try:
                    os.fsync(handle)
                finally:
                    os.close(handle)
        finally:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
    except FileWriteError:
        raise
    except (OSError, SafetensorError) as error:  # the second is what safetensors calls a full disk
        raise FileWriteError(f"{path} cannot be written: {_reason(error)}.") from error


def write_bytes(path: str | os.PathLike[str], data: bytes) -> Path:
    """Write a file whole or not at all; its folder is made if it is missing."""
    with replacing(path) as temporary:
        temporary.write_bytes(data)
    return Path(path)


def write_text(path: str | os.PathLike[str], text: str) -> Path:
    """Write a text as UTF-8, whole or not at all."""
    return write_bytes(path, text.encode())


def write_json(path: str | os.PathLike[str], data: Any, *, indent: int | None = 1, seal: bool = False) -> Path:
    """Write JSON that any reader accepts (no NaN), whole or not at all.

    seal: give an object its checksum as one more key, by which every reader knows a damaged file.
    """
    try:
        text = json.dumps(sealed(data) if seal else data, indent=indent, allow_nan=False)
    except ValueError as error:
        raise FileWriteError(
            f"{path} cannot be written: {error}. JSON has no NaN, no infinity, and nothing that holds itself."
        ) from error
    return write_text(path, text + "\n")


def append_line(path: str | os.PathLike[str], line: str) -> None:
    """Add one line to the end of a file. A last line that a killed process left unfinished is removed first."""
    try:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        with Path(path).open("a+b") as file:
            cut_unfinished_line(file)
            file.write(line.rstrip("\n").encode() + b"\n")
    except (OSError, ValueError) as error:  # the second is what Python says of a name with a null byte
        raise FileWriteError(f"{path} cannot be written: {_reason(error)}.") from error


def cut_unfinished_line(file: IO[bytes]) -> None:
    """Leave an open file ending in a whole line, and positioned there."""
    end = file.seek(0, os.SEEK_END)
    keep = end
    if end:
        file.seek(end - 1)
        if file.read(1) == b"\n":
            return
    while keep:
        start = max(0, keep - BLOCK)
        file.seek(start)
        newline = file.read(keep - start).rfind(b"\n")
        if newline >= 0:
            keep = start + newline + 1
            break
        keep = start
    if keep < end:
        file.truncate(keep)
    file.seek(keep)


def read_text(path: str | os.PathLike[str], *, what: str = "file", remedy: str = "") -> str:
    """The text of a regular file. what: what the file is ("schedule"). remedy: a sentence on what to do."""
    try:
        regular = stat.S_ISREG(Path(path).stat().st_mode)
        text = Path(path).read_text(encoding="utf-8") if regular else None
    except UnicodeDecodeError as error:
        raise DamagedFileError(_sentence(f"The {what} {path} is damaged: it is not a text in UTF-8", remedy)) from error
    except (OSError, ValueError) as error:
        raise FileReadError(_sentence(f"The {what} {path} cannot be read: {_reason(error)}", remedy)) from error
    if text is None:  # a pipe would never end
        raise FileReadError(_sentence(f"The {what} {path} cannot be read: it is not a regular file", remedy))
    return text


def read_json(path: str | os.PathLike[str], *, what: str = "file", remedy: str = "") -> Any:
    """The content of a JSON file, which must fit its checksum if it has one.

    what: what the file is ("schedule"). remedy: a sentence on what to do.
    """
    text = read_text(path, what=what, remedy=remedy)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else f"it is not JSON ({error})"
        raise DamagedFileError(_sentence(f"The {what} {path} is damaged: {reason}", remedy)) from error
    if isinstance(found, dict) and not is_whole(found):
        raise DamagedFileError(
            _sentence(f"The {what} {path} is damaged: its checksum is not that of its content", remedy)
        )
    return found


def read_json_object(path: str | os.PathLike[str], *, what: str = "file", remedy: str = "") -> dict[str, Any]:
    """The content of a JSON file that must hold an object."""
    found = read_json(path, what=what, remedy=remedy)
    if not isinstance(found, dict):
        raise DamagedFileError(
            _sentence(f"The {what} {path} is damaged: it holds a {type(found).__name__}, not a JSON object", remedy)
        )
    return found


def read_json_lines(path: str | os.PathLike[str], *, what: str = "file", remedy: str = "") -> list[Any]:
    """One JSON value a line; empty lines, and a last line that a killed process left unfinished, are left out."""
    lines = read_text(path, what=what, remedy=remedy).splitlines()
    records: list[Any] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            records.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            if number == len(lines):
                break
            raise DamagedFileError(
                _sentence(f"The {what} {path} is damaged: line {number} is not JSON", remedy)
            ) from error
    return records


def check_writable(path: str | os.PathLike[str], suffix: str = "") -> None:
    """Raise before the work, not after it, if the file `path` cannot be written. Leaves nothing behind.

    suffix: with which its name must end.
    """
    missing: list[Path] = []
    parent = Path(path).parent
    try:
        target = _target(Path(path))
        parent = target.parent
        missing = [folder for folder in target.parents if not folder.exists()]
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=target.parent):
            pass
    except FileWriteError:
        raise
    except OSError as error:
        raise FileWriteError(
            f"Nothing can be written to {parent} ({_reason(error)}). Choose another place with --out."
        ) from error
    finally:
        with suppress(OSError):  # another process may have put something there by now
            for folder in missing:
                folder.rmdir()
    if not str(path).lower().endswith(suffix):
        raise FileWriteError(f"The file {path} was given, and what is written is a {suffix} file. Choose such a name.")


def digest_file(path: str | os.PathLike[str]) -> str:
    """SHA-256 of a regular file, in hexadecimal."""
    if not is_file(path):  # a pipe would never end
        raise FileReadError(f"{path} cannot be read: there is no regular file.")
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise FileReadError(f"{path} cannot be read: {_reason(error)}.") from error


def is_file(path: str | os.PathLike[str]) -> bool:
    """Whether a regular file is at a path, or at the end of a link there. A path that cannot be is refused by name."""
    found = _look_at(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Whether a folder is at a path, or at the end of a link there."""
    found = _look_at(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_link(path: str | os.PathLike[str]) -> bool:
    """Whether a symbolic link is at a path, wherever it leads."""
    found = _look_at(path, follow=False)
    return found is not None and stat.S_ISLNK(found.st_mode)


def _look_at(path: str | os.PathLike[str], *, follow: bool = True) -> os.stat_result | None:
    """What is at a path; None if nothing is. pathlib raises for names that are too long."""
    try:
        return Path(path).stat(follow_symlinks=follow)
    except (OSError, ValueError) as error:
        if isinstance(error, OSError) and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP):
            return None
        raise FileReadError(f"{path} cannot be read: {_reason(error)}.") from error


def digest_files(folder: str | os.PathLike[str], names: Iterable[str]) -> dict[str, str]:
    """SHA-256 of each named file of a folder."""
    return {name: digest_file(Path(folder) / name) for name in names}


def temporary_name(name: str) -> str:
    """A name that says whose temporary file or folder it is: `remove_abandoned` knows when its process is dead."""
    short = name.encode(errors="replace")[:_NAME_LENGTH].decode(errors="ignore")
    return f".{short}.vispco-{os.getpid()}-{next(_numbers)}-{_machine_tag()}.tmp"


def remove_abandoned(folder: Path) -> None:
    """Remove temporary files and folders of ours below a folder whose process, on this machine, is dead."""
    for path in list(folder.rglob(".*.tmp")):
        _remove_if_abandoned(path)


def _remove_if_abandoned(path: Path) -> None:
    found = _TEMPORARY.fullmatch(path.name)
    if found is None or (found[2] or _machine_tag()) != _machine_tag() or process_start(int(found[1])) is not None:
        return
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


@cache
def _machine_tag() -> str:
    return hashlib.sha256(machine_id().encode()).hexdigest()[:8]


def _target(path: Path) -> Path:
    """Where a write to `path` goes: the end of a symbolic link; refused where a regular file cannot be."""
    if "\0" in str(path):
        raise FileWriteError(f"{str(path)!r} is not the name of a file: it holds a null byte. Give the name of a file.")
    target = Path(os.path.realpath(path)) if path.is_symlink() else path
    if not str(path).strip() or target.name in ("", ".."):
        raise FileWriteError(f"{str(path)!r} is not the name of a file. Give the name of a file.")
    if target.is_dir():
        raise FileWriteError(f"{path} cannot be written: it is a folder. Give the name of a file.")
    if target.exists() and not target.is_file():
        raise FileWriteError(f"{path} cannot be written: it is not a regular file. Give the name of a file.")
    return target


def _reason(error: Exception) -> str:
    return str(getattr(error, "strerror", None) or error)


def _sentence(text: str, remedy: str) -> str:
    return f"{text.rstrip('.')}. {remedy}".rstrip()
