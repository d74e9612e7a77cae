"""`run.json` and `run.lock`: owner of a folder, files with their checksums, and the process that writes now.

Readers of a run call `check_files`, which refuses what the run did not write. Commands that write a single file call
`check_output` before the work and `record_output` after it. A dead process loses its lock.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Any

from vispco.core.errors import InvalidInputError, check_version
from vispco.core.runs import files
from vispco.core.runs.provenance import machine_id, process_start
from vispco.version import __version__

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows has none
    fcntl = None  # type: ignore[assignment]

LOCK = "run.lock"


class RunFolderError(InvalidInputError):
    """A folder cannot take this run; the message names what is in it and what to do."""


class RunLock:
    """`run.lock`: the process that writes to a folder now."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / LOCK

    def write(self) -> None:
        """Name this process."""
        owner = {"pid": os.getpid(), "machine": machine_id(), "started": process_start(os.getpid())}
        files.write_json(self.path, owner)

    def owner(self) -> dict[str, Any] | None:
        """The process that holds the lock; None if there is none, or if it is dead."""
        if not files.is_file(self.path):
            return None
        try:
            owner = files.read_json_object(self.path)
            pid, machine = int(owner["pid"]), owner["machine"]
        except (InvalidInputError, KeyError, TypeError, ValueError, OverflowError):
            return None  # it is written whole, so this is not a lock of ours
        dead = machine == machine_id() and process_start(pid) != owner.get("started")
        return None if dead else owner

    def check(self) -> None:
        """Raise if another process writes to the folder, or if its lock could not be replaced."""
        if files.is_folder(self.path):
            raise RunFolderError(f"{self.path} is a folder, and a run has a file there. Move it away.")
        owner = self.owner()
        if owner is None:
            return
        host = str(owner["machine"]).partition("/")[0]
        rest = "." if owner["machine"] == machine_id() else f", or delete {self.path} if that process is dead."
        raise RunFolderError(
            f"{self.folder} is in use by process {owner['pid']} on {host}. Wait for it, or give another folder{rest}"
        )

    def remove(self) -> None:
        """Take the name of a process away."""
        try:
            self.path.unlink(missing_ok=True)
        except OSError as error:
            raise RunFolderError(f"{self.path} cannot be removed: {error.strerror}. Move it away.") from error


def wait_for_lock(handle: int, place: Path) -> None:
    """Hold the kernel's exclusive lock on an open file until it is closed. Some network file systems have none."""
    try:
        if fcntl is not None:
            fcntl.flock(handle, fcntl.LOCK_EX)
    except OSError as error:
        raise RunFolderError(
            f"{place} cannot be locked: {error.strerror or error}. Without a lock, two processes could write there at once. "
            "Give a folder on a local disk with --out, or mount this file system with locks."
        ) from error


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """One process of this machine at a time; the kernel's lock on the folder dies with its holder."""
    try:
        handle = None if os.name == "nt" else os.open(folder, os.O_RDONLY)  # Windows cannot open a folder
    except OSError as error:
        raise RunFolderError(
            f"The folder {folder} cannot be opened: {error.strerror or error}. Give another folder with --out."
        ) from error
    try:
        if handle is not None:
            wait_for_lock(handle, folder)
        yield
    finally:
        if handle is not None:
            os.close(handle)


RECORD = "run.json"
FORMAT, VERSION = "vispco-run", 1
_DAMAGED = "Restore it, or move the folder away."


@dataclass(frozen=True)
class RunRecord:
    """The content of run.json.

    files: the run's own, by path below the folder, with the SHA-256 of each; None while a run is writing it, and for
    files that grow (journals). outputs: what other commands added afterwards (a page, figures, timings).
    """

    id: str
    kind: str
    settings: dict[str, Any]
    started: str
    finished: bool = False
    files: dict[str, str | None] = field(default_factory=dict)
    outputs: dict[str, str | None] = field(default_factory=dict)

    @property
    def title(self) -> str:
        return f"{self.kind} {self.id}, started {self.started}"

    @property
    def remedy(self) -> str:
        """The sentence on restoring a damaged file."""
        if self.kind == "sweep":
            return "Restore it, or run the sweep again, which writes it again."
        return "Restore it, or move it away and run the same command with --overwrite."

    def with_pending(self, *names: str) -> RunRecord:
        """The record while the run writes some of its files."""
        outputs = {key: value for key, value in self.outputs.items() if key not in names}
        return replace(self, finished=False, files={**self.files, **dict.fromkeys(names)}, outputs=outputs)

    def write(self, folder: Path) -> None:
        """Write run.json."""
        content = {"format": FORMAT, "version": VERSION, "vispco": __version__, **asdict(self)}
        files.write_json(folder / RECORD, content, seal=True)

    def remove_run(self, folder: Path) -> None:
        """Delete what the run wrote. Nothing is deleted if one of the files has been changed since."""
        listed = {**self.files, **self.outputs}
        for name, expected in listed.items():
            path = inside(folder, name)
            if path.is_dir():
                raise RunFolderError(
                    f"{path} is a folder, and the run wrote a file there. Move it away, then run again."
                )
            if expected is not None and path.is_file() and files.digest_file(path) != expected:
                raise RunFolderError(f"{path} was changed after the run had written it. Move it away, then run again.")
        for name in listed:
            path = folder / name
            path.unlink(missing_ok=True)
            for parent in path.relative_to(folder).parents[:-1]:
                with suppress(OSError):  # not empty
                    (folder / parent).rmdir()
        (folder / RECORD).unlink()


def read_record(folder: str | os.PathLike[str]) -> RunRecord | None:
    """The record of a run's folder; None where there is none (a folder of an older version, or of something else)."""
    path = Path(folder) / RECORD
    if files.is_link(path):
        raise RunFolderError(f"{path} is a link. Put the record itself there, or give another folder.")
    if not files.is_file(path):
        return None
    data = files.read_json_object(path, what="record of the run", remedy=_DAMAGED)
    known = {name: data[name] for name in RunRecord.__dataclass_fields__ if name in data}
    maps = [known.get(name, {}) for name in ("settings", "files", "outputs")]
    words = [known.get(name) for name in ("id", "kind", "started")]
    if data.get("format") != FORMAT or not all(isinstance(word, str) for word in words):
        raise files.DamagedFileError(f"{path} is not the record of a run. {_DAMAGED}")
    if "settings" not in known or not all(isinstance(each, dict) for each in maps):
        raise files.DamagedFileError(f"The record of the run {path} is damaged: parts of it are missing. {_DAMAGED}")
    sums = [expected for each in maps[1:] for expected in each.values()]
    if not all(isinstance(each, str | None) for each in sums) or not isinstance(known.get("finished", False), bool):
        raise files.DamagedFileError(
            f"The record of the run {path} is damaged: parts of it are no checksums. {_DAMAGED}"
        )
    check_version(data, VERSION, f"The record of the run {path}")
    for name in (*maps[1], *maps[2]):
        inside(Path(folder), name)
    return RunRecord(**known)


def check_files(folder: str | os.PathLike[str], *, outputs: bool = True) -> RunRecord | None:
    """Raise if a file of the run is missing, damaged or of another run. Returns the record; None if there is none.

    outputs: also what other commands added, which a run that goes on does not read.
    """
    record = read_record(folder)
    if record is None:
        return None
    for name, expected in {**record.files, **(record.outputs if outputs else {})}.items():
        path = inside(Path(folder), name)
        if expected is None or (name in record.outputs and not path.is_file()):  # a page or a figure may be tidied up
            continue
        if not path.is_file():
            raise files.DamagedFileError(f"{path} is missing, although the run wrote it. {record.remedy}")
        if files.digest_file(path) != expected:
            raise files.DamagedFileError(
                f"{path} is damaged, or of another run: its checksum is not the one in {Path(folder) / RECORD}. "
                f"{record.remedy}"
            )
    return record


def check_recorded(path: str | os.PathLike[str]) -> None:
    """Raise if one file, given by itself, lies in a run's folder and is not what was written there."""
    target = Path(path)
    for folder, record in _runs_around(target):
        expected = {**record.files, **record.outputs}.get(_relative(target, folder))
        if expected is not None and files.digest_file(target) != expected:
            raise files.DamagedFileError(
                f"{path} is damaged, or was changed: its checksum is not the one in {folder / RECORD}. Restore it, write it "
                "again, or copy it out of the folder if the change is yours."
            )
        return


def check_complete(folder: str | os.PathLike[str]) -> RunRecord | None:
    """`check_files`, and the run must be finished. The process that is writing it may read it earlier."""
    record = check_files(folder)
    owner = RunLock(Path(folder)).owner()
    if record is not None and not record.finished and (owner is None or owner.get("pid") != os.getpid()):
        state = "is not finished" if owner is None else f"is being written by process {owner['pid']}"
        raise RunFolderError(
            f"The run in {folder} ({record.title}) {state}. Run its command again to finish it, or wait for it."
        )
    return record


def check_output(path: str | os.PathLike[str], *marks: str) -> None:
    """Raise before the work if a command may not write its result to `path`.

    Refused: a file that belongs to a run, and one that exists and does not hold every one of `marks`
    ("vispco-evaluation"), which all files of this command do.
    """
    files.check_writable(path)
    target = Path(path)
    for folder, record in _runs_around(target):
        if target.name in (RECORD, LOCK) or _relative(target, folder) in record.files:
            raise RunFolderError(f"{path} belongs to the run in {folder}. Give another file with --out.")
    if files.is_file(target) and target.stat().st_size:
        content = target.read_bytes()
        if not all(mark.encode() in content for mark in marks):
            raise RunFolderError(f"{path} exists and was not written by this command. Give another file with --out.")


def record_output(path: str | os.PathLike[str]) -> None:
    """Note a file that a command added to the folder of a run; elsewhere nothing happens."""
    target = Path(path)
    for folder, _ in _runs_around(target):
        with alone(folder):
            record = read_record(folder)
            if record is not None:
                sums = {**record.outputs, _relative(target, folder): files.digest_file(target)}
                replace(record, outputs=sums).write(folder)
        return


def _runs_around(target: Path) -> Iterator[tuple[Path, RunRecord]]:
    """The run folders that a file may belong to, nearest first, with their records."""
    for folder in (target.parent, target.parent.parent):
        record = read_record(folder)
        if record is not None:
            yield folder, record


def _relative(path: Path, folder: Path) -> str:
    """The name of a file of a folder; of a link, the name of the link."""
    return (path.parent.resolve() / path.name).relative_to(folder.resolve()).as_posix()


def inside(folder: Path, name: str) -> Path:
    """The path of a file of a run. A link is refused, and a name that leads out of the folder, through links too."""
    parts = PurePosixPath(name).parts
    path = folder / name
    if not parts or name.startswith("/") or ".." in parts or parts[0] in (RECORD, LOCK):
        raise RunFolderError(f"{name!r} is not the name of a file of a run in {folder}.")
    try:
        outside = not path.parent.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null byte, links in a circle
        reason = getattr(error, "strerror", None) or error
        raise RunFolderError(f"{name!r:.80} is not the name of a file of a run in {folder}: {reason}.") from error
    if outside:
        raise RunFolderError(f"{path} lies outside of {folder}. Move the link away.")
    if files.is_link(path):
        raise RunFolderError(f"{path} is a link, which a run never writes. Put the file itself there.")
    return path


_NAMED = 5  # files that a refusal lists


def make_folder(path: Path, *, exist_ok: bool = True) -> None:
    """Make a folder and those above it. `FileExistsError` if it must be new and is not."""
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except (OSError, ValueError) as error:
        if isinstance(error, FileExistsError) and not exist_ok:
            raise
        raise RunFolderError(
            f"The folder {path} cannot be made ({getattr(error, 'strerror', None) or error}). Choose another place with --out."
        ) from error


def check_place(path: Path) -> None:
    try:
        place, here = path.resolve(), Path.cwd()
        found = path.exists()
    except (OSError, ValueError, RuntimeError) as error:  # too long, a null byte, links in a circle
        reason = getattr(error, "strerror", None) or error
        raise RunFolderError(f"{str(path)!r} cannot be a folder: {reason}. Give the name of a new folder.") from error
    if place == here or place in here.parents:
        raise RunFolderError(
            f"The folder {str(path)!r} is the current one or holds it. Give a new one, such as runs/one."
        )
    if found and not path.is_dir():
        raise RunFolderError(f"{path} is a file, not a folder. Give the name of a new folder.")


def check_empty(path: Path, accepted: Sequence[str] = ()) -> list[str]:
    """The files of a folder without a record; refused apart from hidden ones (.gitkeep) and those of accepted patterns."""
    names = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
    found = [name for name in names if not any(fnmatchcase(name, pattern) for pattern in accepted)]
    if found:
        more = f" and {len(found) - _NAMED} more" if len(found) > _NAMED else ""
        raise RunFolderError(
            f"{path} holds files that no run has noted in {RECORD}: {', '.join(found[:_NAMED])}{more}. They may belong to a "
            "model or to you. Give a new folder."
        )
    return names
