"""`RunFolder`: a folder belongs to one run, and nothing in it that the run did not write is ever touched.

    folder = RunFolder("runs/one")                       # or RunFolder.new("runs", "tiny-qwen-fastv")
    with folder.claim("search", settings, model=fingerprint):
        folder.write_json("config.json", {...})          # ours from now on
        checkpoint.save(folder.file("training/checkpoint.safetensors"), ...)
        with folder.staging("predictor") as temporary:   # for writers that fill a whole folder
            predictor.save_pretrained(temporary)
        folder.finish()                                  # checksums of everything; the run is complete

`run.json` says whose the folder is (see `run_record`); `run.lock` names the process that writes now.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from vispco import files
from vispco.errors import InvalidInputError
from vispco.run_lock import LOCK, RunFolderError, alone, check_lock, owner_of, write_lock
from vispco.run_record import RECORD, RunRecord, inside, read_record, write_record

NAMED = 5  # files that a refusal lists


class RunFolder:
    """A folder for one run. `claim` makes it ours or refuses; only then does it have a `path` that may be written to.

    overwrite: replace an earlier run of the same kind, which means the files that it wrote and no others.
    """

    def __init__(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        if not str(path).strip():
            raise RunFolderError("The folder of the run is ''. Give the name of a new folder, such as runs/one.")
        self.path = Path(path)
        self.overwrite = overwrite
        self._numbered = False
        self._record: RunRecord | None = None

    @classmethod
    def new(cls, parent: str | os.PathLike[str], name: str) -> Self:
        """A folder parent/NAME-NUMBER: the last one if it is an unfinished run with the same settings, else a new one."""
        folder = cls(Path(parent) / "".join(c if c.isalnum() or c in "-_.+" else "-" for c in name))
        folder._numbered = True
        return folder

    @contextmanager
    def claim(
        self, kind: str, settings: Mapping[str, Any], *, model: Any = None, shared: bool = False
    ) -> Iterator[Self]:
        """Make the folder ours for the block, or raise before anything is written.

        kind: the command ("search"). settings: everything that the results depend on, as JSON. model: the fingerprint
        of the model, compared with the settings. An unfinished or finished run with the same settings continues.
        shared: any number of processes may hold the folder at once (a sweep, whose journal has its own locks).
        Inside a block of the same object, a second claim is part of the first run and compares nothing.
        """
        if self._record is not None:
            yield self
            return
        wanted = json.loads(json.dumps({**settings, **({} if model is None else {"model": model})}))
        new = self._enter(kind, wanted, shared=shared)
        try:
            yield self
        finally:
            self._leave(remove=new, shared=shared)

    @property
    def record(self) -> RunRecord:
        if self._record is None:
            raise RunFolderError(f"{self.path} is not claimed. Write to it inside of `with folder.claim(...)`.")
        return self._record

    def file(self, name: str) -> Path:
        """The path of a file that this run is about to write; from now on it is ours. Refuses a file that is not."""
        path = inside(self.path, name)
        known = self.record.files
        if name not in known and name not in self.record.outputs and os.path.lexists(path):
            raise RunFolderError(f"{path} was not written by this run. Move it away, or choose another folder.")
        if name not in known or known[name] is not None or self.record.finished:
            self._update(lambda record: record.with_pending(name))
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def write_json(self, name: str, data: Any, *, indent: int | None = 1) -> Path:
        """Write a JSON file of the run."""
        return files.write_json(self.file(name), data, indent=indent)

    def write_text(self, name: str, text: str) -> Path:
        """Write a text file of the run."""
        return files.write_text(self.file(name), text)

    @contextmanager
    def staging(self, name: str = "") -> Iterator[Path]:
        """A temporary folder whose files become the run's files below `name` when the block ends.

        Files that an earlier version of the folder had and this one has not are removed, where the run wrote them.
        """
        temporary = (
            self.path / f".{name.replace('/', '-') or 'files'}.vispco-{os.getpid()}-{uuid.uuid4().int % 10**6}.tmp"
        )
        prefix = f"{name}/" if name else ""
        try:
            temporary.mkdir(parents=True)
            yield temporary
            made = sorted(path.relative_to(temporary).as_posix() for path in temporary.rglob("*") if path.is_file())
            for each in made:
                with (temporary / each).open("rb") as file:
                    os.fsync(file.fileno())
                (temporary / each).replace(self.file(prefix + each))
            written = {prefix + each for each in made}
            for old in [key for key in self.record.files if prefix and key.startswith(prefix) and key not in written]:
                self.remove(old)
        except OSError as error:
            if isinstance(error, InvalidInputError):
                raise
            raise files.FileWriteError(f"{self.path / name} cannot be written: {error.strerror or error}.") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def remove(self, name: str) -> None:
        """Delete a file of the run; nothing happens to a file that the run did not write."""
        if name in self.record.files:
            inside(self.path, name).unlink(missing_ok=True)
            left = {key: value for key, value in self.record.files.items() if key != name}
            self._update(lambda record: replace(record, files=left))

    def finish(self, *, growing: tuple[str, ...] = ()) -> None:
        """The run is complete: note the checksum of each of its files. growing: files that are never closed (journals)."""

        def seal(record: RunRecord) -> RunRecord:
            present = [name for name in record.files if inside(self.path, name).is_file()]
            sums = {name: None if name in growing else files.digest_file(self.path / name) for name in present}
            return replace(record, finished=True, files=sums)

        self._update(seal)

    def _enter(self, kind: str, wanted: dict[str, Any], *, shared: bool) -> bool:
        """Take the folder. Returns whether it was made or empty before."""
        if self._numbered:
            self.path = self._next(kind, wanted)
        _check_place(self.path)
        _make(self.path)
        with alone(self.path):
            found = read_record(self.path)
            check_lock(self.path)
            if found is None:
                _check_empty(self.path)
            elif found.kind != kind or found.settings != wanted:
                if not (self.overwrite and found.kind == kind):
                    raise RunFolderError(_other_run(self.path, found, kind, wanted))
                _remove_files(self.path, found)
            new = found is None or found.settings != wanted
            if new:
                stamp = time.strftime("%Y-%m-%d %H:%M:%S")
                found = RunRecord(uuid.uuid4().hex[:12], kind, wanted, stamp)
                write_record(self.path, found)
            (self.path / LOCK).unlink(missing_ok=True)  # of a dead process
            if not shared:
                write_lock(self.path)
            files.remove_abandoned(self.path)
            self._record = found
        return new

    def _leave(self, *, remove: bool, shared: bool) -> None:
        """Give the folder back; one that a new run failed to write anything into disappears."""
        with alone(self.path):
            unused = remove and not self.record.files
            self._record = None
            if not shared:
                (self.path / LOCK).unlink(missing_ok=True)
            if unused:
                (self.path / RECORD).unlink(missing_ok=True)
        if unused:
            with suppress(OSError):
                self.path.rmdir()

    def _next(self, kind: str, wanted: dict[str, Any]) -> Path:
        for number in itertools.count(1):
            path = self.path.with_name(f"{self.path.name}-{number}")
            with suppress(FileExistsError):
                _make(path, exist_ok=False)
                break
            with suppress(InvalidInputError):  # a folder that cannot be read is passed over
                found = read_record(path)
                unfinished = found is not None and not found.finished and owner_of(path) is None
                if found is not None and unfinished and (found.kind, found.settings) == (kind, wanted):
                    break
        return path

    def _update(self, change: Callable[[RunRecord], RunRecord]) -> None:
        with alone(self.path):
            current = read_record(self.path)
            if current is None or current.id != self.record.id:
                raise RunFolderError(f"{self.path / RECORD} was changed by someone else while this run was writing.")
            self._record = change(current)
            write_record(self.path, self._record)


def _make(path: Path, *, exist_ok: bool = True) -> None:
    try:
        path.mkdir(parents=True, exist_ok=exist_ok)
    except FileExistsError:
        raise
    except OSError as error:
        raise RunFolderError(
            f"The folder {path} cannot be made ({error.strerror}). Choose another place with --out."
        ) from error


def _check_place(path: Path) -> None:
    place, here = path.resolve(), Path.cwd()
    if place == here or place in here.parents:
        raise RunFolderError(
            f"The folder {str(path)!r} is the current one or holds it. Give a new one, such as runs/one."
        )
    if path.exists() and not path.is_dir():
        raise RunFolderError(f"{path} is a file, not a folder. Give the name of a new folder.")


def _check_empty(path: Path) -> None:
    """A folder with anything in it is refused, apart from hidden files (.gitkeep, .DS_Store)."""
    found = sorted(each.name for each in path.iterdir() if not each.name.startswith("."))
    if found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise RunFolderError(
            f"{path} holds files that no run has noted in {RECORD}: {', '.join(found[:NAMED])}{more}. They may belong to a "
            "model, to you, or to an older version of vispco. Give a new folder."
        )


def _other_run(path: Path, found: RunRecord, kind: str, wanted: Mapping[str, Any]) -> str:
    """What is in the folder and how it differs from what was asked for."""
    if found.kind != kind:
        return f"{path} holds another run ({found.title}), and a {kind} cannot go there. Give another folder."
    keys = [key for key in {**found.settings, **wanted} if found.settings.get(key) != wanted.get(key)]
    told = "; ".join(f"{key}: {_short(found.settings.get(key))} there, {_short(wanted.get(key))} here" for key in keys)
    return (
        f"{path} holds another run ({found.title}) with other settings ({told}). Give another folder with --out, or "
        "--overwrite to replace the files of that run."
    )


def _short(value: Any, length: int = 60) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= length else f"{text[:length]}..."


def _remove_files(folder: Path, record: RunRecord) -> None:
    """Delete what a run wrote. Nothing is deleted if one of the files has been changed since."""
    listed = {**record.files, **record.outputs}
    for name, expected in listed.items():
        path = inside(folder, name)
        if expected is not None and path.is_file() and files.digest_file(path) != expected:
            raise RunFolderError(f"{path} was changed after the run had written it. Move it away, then run again.")
    for name in listed:
        path = folder / name
        path.unlink(missing_ok=True)
        for parent in path.relative_to(folder).parents[:-1]:
            with suppress(OSError):  # not empty
                (folder / parent).rmdir()
    (folder / RECORD).unlink()
