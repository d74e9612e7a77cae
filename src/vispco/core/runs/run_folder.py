"""`RunFolder`: a folder belongs to one run, and nothing in it that the run did not write is ever touched.

    folder = RunFolder("runs/one")                       # or RunFolder.new("runs", "tiny-qwen-fastv")
    with folder.claim("search", settings, model=fingerprint):
        folder.write_json("config.json", {...})          # ours from now on
        checkpoint.save(folder.file("training/checkpoint.safetensors"), ...)
        with folder.staging("predictor") as temporary:   # for writers that fill a whole folder
            predictor.save_pretrained(temporary)
        folder.finish()                                  # checksums of everything; the run is complete

A function that takes `RunFolder` or a path claims it itself. Who calls it and adds files of its own holds the folder
around the call, so that the run is finished when all of it is there:

    with RunFolder("runs/one").held() as folder:
        vispco.search.search(model, processor, samples, directory=folder)      # claims it
        folder.write_json("examples.json", [...])
        folder.finish()

`run.json` says whose the folder is (see `run_record`); `run.lock` names the process that writes now.
"""

from __future__ import annotations

import itertools
import json
import os
import shutil
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from safetensors import SafetensorError

from vispco.core.errors import InvalidInputError
from vispco.core.runs import files
from vispco.core.runs.run_record import (
    RECORD,
    RunFolderError,
    RunLock,
    RunRecord,
    alone,
    check_empty,
    check_files,
    check_place,
    inside,
    make_folder,
    read_record,
)

_NAME_LENGTH = 60  # of a folder that gets a number: even in bytes, a name of a file system


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
        self._depth = 0  # blocks of `held` and `claim` around the caller
        self._new = self._shared = False
        self._until_finish: set[str] = set()

    @classmethod
    def of(cls, place: str | os.PathLike[str] | RunFolder) -> RunFolder:
        """The folder at a path, or the folder itself."""
        return place if isinstance(place, RunFolder) else cls(place)

    @classmethod
    def new(cls, parent: str | os.PathLike[str], name: str) -> Self:
        """A folder parent/NAME-NUMBER: the last one if it is an unfinished run with the same settings, else a new one."""
        folder = cls(Path(parent) / "".join(c if c.isalnum() or c in "-_.+" else "-" for c in name[:_NAME_LENGTH]))
        folder._numbered = True
        return folder

    @contextmanager
    def claim(
        self,
        kind: str,
        settings: Mapping[str, Any],
        *,
        model: Any = None,
        shared: bool = False,
        accepted: Sequence[str] = (),
    ) -> Iterator[Self]:
        """Make the folder ours for the block, or raise before anything is written.

        kind: the command ("search"). settings: everything that the results depend on, as JSON. model: the fingerprint
        of the model, compared with the settings. An unfinished or finished run with the same settings continues.
        shared: any number of processes may hold the folder at once (a sweep, whose journal has its own locks).
        accepted: patterns of files that the folder may hold without a record, such as a journal that was copied there.
        Inside a block of the same object, a second claim is part of the first run and compares nothing.
        """
        if self._record is None:
            # Settings as the record gives them back.
            try:
                wanted: dict[str, Any] = json.loads(
                    json.dumps({**settings, **({} if model is None else {"model": model})}, allow_nan=False)
                )
            except (TypeError, ValueError, RecursionError) as error:
                raise RunFolderError(
                    f"The settings of the run in {self.path} cannot be noted: {error}. Give finite numbers, words and lists."
                ) from error
            self._new, self._shared = self._enter(kind, wanted, accepted, shared=shared), shared
        with self.held():
            yield self

    @contextmanager
    def held(self) -> Iterator[Self]:
        """Keep what is claimed inside of the block until its end. `finish` has its effect in the outermost block."""
        self._depth += 1
        try:
            yield self
        finally:
            self._depth -= 1
            if self._depth == 0 and self._record is not None:
                # Give the folder back; one that a new run failed to write anything into disappears.
                with alone(self.path):
                    unused = self._new and not self.record.files
                    self._record = None
                    if not self._shared:
                        RunLock(self.path).remove()
                    if unused:
                        (self.path / RECORD).unlink(missing_ok=True)
                if unused:
                    with suppress(OSError):
                        self.path.rmdir()

    def check(self, *, accepted: Sequence[str] = ()) -> None:
        """Raise if no run could be put here, whatever its settings: before the work that it takes to know them."""
        if self._numbered:
            return
        check_place(self.path)
        if files.is_folder(self.path) and self._record is None:
            RunLock(self.path).check()
            if read_record(self.path) is None:
                check_empty(self.path, accepted)
        files.check_writable(self.path / RECORD)

    @property
    def record(self) -> RunRecord:
        if self._record is None:
            raise RunFolderError(f"{self.path} is not claimed. Write to it inside of `with folder.claim(...)`.")
        return self._record

    def file(self, name: str) -> Path:
        """The path of a file that this run is about to write; from now on it is ours. Refuses a file that is not."""
        path, known = self._check_free(name), self.record.files
        if name not in known or known[name] is not None or self.record.finished:
            self._update(lambda record: record.with_pending(name))
        make_folder(path.parent)
        return path

    def declare(self, *names: str) -> None:
        """Files that this run is about to write by their paths, in one step."""
        for name in names:
            self._check_free(name)
        self._update(lambda record: record.with_pending(*names))

    def until_finish(self, name: str, *, write: bool = True) -> Path:
        """The path of a file that only an unfinished run needs; `finish` removes it. write: it is about to be written."""
        self._until_finish.add(name)
        return self.file(name) if write else inside(self.path, name)

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
        temporary = self.path / files.temporary_name(name.replace("/", "-") or "files")
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
        except (OSError, SafetensorError) as error:  # the second is what safetensors calls a full disk
            if isinstance(error, InvalidInputError):
                raise
            reason = getattr(error, "strerror", None) or error
            raise files.FileWriteError(f"{self.path / name} cannot be written: {reason}.") from error
        finally:
            shutil.rmtree(temporary, ignore_errors=True)

    def remove(self, name: str) -> None:
        """Delete a file of the run; nothing happens to a file that the run did not write."""
        if name in self.record.files:
            path = inside(self.path, name)
            if path.is_dir():
                raise RunFolderError(f"{path} is a folder, and the run wrote a file there. Move it away.")
            path.unlink(missing_ok=True)
            left = {key: value for key, value in self.record.files.items() if key != name}
            self._update(lambda record: replace(record, files=left))

    def finish(self, *, growing: Sequence[str] = (), only: str = "") -> None:
        """The run is complete: note the checksum of each of its files.

        growing: files that are never closed (journals). only: how the names of this run's files begin, where several
        runs share the folder.
        Inside of a larger run, which has more to write, the checksums are noted and the run stays unfinished.
        """
        whole = self._depth <= 1

        def seal(record: RunRecord) -> RunRecord:
            present = {name: known for name, known in record.files.items() if inside(self.path, name).is_file()}
            own = [name for name in present if name.startswith(only) and name not in {*growing, *self._until_finish}]
            sums = files.digest_files(self.path, own)
            return replace(record, finished=whole, files={**(present if whole else record.files), **sums})

        self._update(seal)
        for name in sorted(self._until_finish) if whole else ():  # a kill before this line must not lose what they hold
            self.remove(name)

    def seal(self, *names: str) -> None:
        """Note the checksums of files that are complete while the run goes on: a damaged one will not be built upon."""
        sums = files.digest_files(self.path, [name for name in names if inside(self.path, name).is_file()])
        self._update(lambda record: replace(record, files={**record.files, **sums}))

    def _check_free(self, name: str) -> Path:
        """The path of a file that the run may write."""
        path = inside(self.path, name)
        if path.is_dir():
            raise RunFolderError(f"{path} is a folder, and the run writes a file there. Move it away.")
        if name not in self.record.files and name not in self.record.outputs and os.path.lexists(path):
            raise RunFolderError(f"{path} was not written by this run. Move it away, or choose another folder.")
        return path

    def _enter(self, kind: str, wanted: dict[str, Any], accepted: Sequence[str], *, shared: bool) -> bool:
        """Take the folder. Returns whether it was made or empty before."""
        if self._numbered:
            self.path = self._next(kind, wanted)
        check_place(self.path)
        make_folder(self.path)
        replaced = False
        with alone(self.path):
            found = read_record(self.path)
            RunLock(self.path).check()
            taken = check_empty(self.path, accepted) if found is None else ()
            if found is not None and (found.kind, found.settings) != (kind, wanted):
                if not (self.overwrite and found.kind == kind):
                    raise RunFolderError(_describe_other_run(self.path, found, kind, wanted))
                replaced = True
            elif found is not None and not shared:
                try:
                    check_files(self.path, outputs=False)
                    replaced = self.overwrite and found.finished
                except files.DamagedFileError:
                    if not self.overwrite:
                        raise
                    replaced = True
            if found is not None and replaced:
                found.remove_run(self.path)
            new = found is None or replaced
            if found is None or replaced:
                stamp = time.strftime("%Y-%m-%d %H:%M:%S")
                found = RunRecord(uuid.uuid4().hex[:12], kind, wanted, stamp, files=dict.fromkeys(taken))
                found.write(self.path)
            RunLock(self.path).remove()  # of a dead process
            if not shared:
                RunLock(self.path).write()
            files.remove_abandoned(self.path)
            self._record = found
        return new

    def _next(self, kind: str, wanted: dict[str, Any]) -> Path:
        for number in itertools.count(1):
            path = self.path.with_name(f"{self.path.name}-{number}")
            with suppress(FileExistsError):
                make_folder(path, exist_ok=False)
                break
            with suppress(InvalidInputError):  # a folder that cannot be read is passed over
                found = read_record(path)
                unfinished = found is not None and not found.finished and RunLock(path).owner() is None
                if found is not None and unfinished and (found.kind, found.settings) == (kind, wanted):
                    break
        return path

    def _update(self, change: Callable[[RunRecord], RunRecord]) -> None:
        with alone(self.path):
            current = read_record(self.path)
            if current is None or current.id != self.record.id:
                raise RunFolderError(f"{self.path / RECORD} was changed by someone else while this run was writing.")
            self._record = change(current)
            self._record.write(self.path)


def _describe_other_run(path: Path, found: RunRecord, kind: str, wanted: Mapping[str, Any]) -> str:
    """What is in the folder and how it differs from what was asked for."""
    if found.kind != kind:
        return f"{path} holds another run ({found.title}), and a {kind} cannot go there. Give another folder."
    keys = [key for key in {**found.settings, **wanted} if found.settings.get(key) != wanted.get(key)]
    differences = "; ".join(
        f"{key}: {_short(found.settings.get(key))} there, {_short(wanted.get(key))} here" for key in keys
    )
    return (
        f"{path} holds another run ({found.title}) with other settings ({differences}). Give another folder with --out, or "
        "--overwrite to replace the files of that run."
    )


def _short(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value)
    return text if len(text) <= 60 else f"{text[:60]}..."
