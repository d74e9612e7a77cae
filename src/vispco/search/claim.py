"""A search and its folder: what makes it the same search, and the files that it writes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import broadcast_object_list

from vispco.core.runs.run_folder import RunFolder
from vispco.pruner import run_files as disk
from vispco.pruner.model_fingerprint import ModelFingerprint
from vispco.search.gradient import checkpoint
from vispco.search.ranks import rank_and_size
from vispco.search.search_journal import NAME as JOURNAL

if TYPE_CHECKING:
    from vispco.data.sample import Sample

_TRAINING = "training"  # the folder of a gradient training's checkpoint and metrics
_WRITTEN = (disk.CONFIG, disk.SHAPES, disk.METRICS, disk.FRONTIER, disk.UNPRUNED)


@contextmanager
def claimed(
    directory: str | Path | RunFolder | None,
    settings: Mapping[str, Any],
    model: Any,
    samples: Sequence[Sample],
    test: Sequence[Sample] | None,
) -> Iterator[tuple[Path | None, RunFolder | None, bool]]:
    """(where the search lives, its folder to write to, whether it was finished before) for the length of a block.

    Of many processes (`accelerate launch`), all know the place and one writes; the others have no folder. Raises if there
    is something else in it.
    """
    if directory is None:
        yield None, None, False
        return
    folder = RunFolder.of(directory)
    if rank_and_size()[0] > 0:
        place, finished = _shared_place(folder, finished=False)
        yield place, None, finished
        return
    known = {
        **settings,
        "dtype": str(getattr(model, "dtype", "")),
        "samples": _samples_digest(samples),
        "test": None if test is None else _samples_digest(test),
    }
    with folder.claim("search", known, model=ModelFingerprint.of(model).to_dict()):
        finished = folder.record.files.get(disk.FRONTIER) is not None  # it is written last, and has its checksum
        folder.until_finish(JOURNAL, write=not finished)
        if not finished:
            folder.declare(*_WRITTEN, f"{_TRAINING}/{checkpoint.NAME}", f"{_TRAINING}/{disk.METRICS}")
        yield _shared_place(folder, finished=finished)[0], folder, finished
        folder.finish()


def _shared_place(folder: RunFolder, *, finished: bool) -> tuple[Path, bool]:
    """Path and state of the folder as the first process knows them: a numbered one has its number when it is claimed."""
    known = [str(folder.path), finished]
    broadcast_object_list(known)
    return Path(str(known[0])), bool(known[1])


def _samples_digest(samples: Sequence[Sample]) -> str:
    """A short name of a list of samples, from all that is asked and known of them but the pictures' pixels."""
    found = blake2b(digest_size=16)
    for sample in samples:
        parts = (sample.id, sample.task, sample.question, sample.answer, *sample.references, sample.area)
        found.update("\0".join(map(str, parts)).encode("utf-8", "surrogatepass") + b"\1")
    return f"{len(samples)} samples, {found.hexdigest()}"
