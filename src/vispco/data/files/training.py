"""Conversations as the samples that a search learns from: every turn one, its picture decoded when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.data.dataset import Lazy
from vispco.data.files.hf_folder import HfFolder
from vispco.data.files.image import MAX_SIDE
from vispco.data.files.jsonl import Jsonl
from vispco.data.files.limits import context_length
from vispco.data.files.llava_instruct import LlavaInstruct
from vispco.data.files.sample_set import decoded, leave_out, refusal
from vispco.data.files.sampling import AreaSample, draw, equalise_areas, read_areas, take
from vispco.data.files.tsv import Tsv

if TYPE_CHECKING:
    from vispco.data.files.record import Record
    from vispco.data.files.records import Records
    from vispco.data.files.skipped import SkipReport
    from vispco.data.sample import Sample

READERS: dict[str, type[LlavaInstruct | Tsv]] = {
    ".json": LlavaInstruct,
    ".jsonl": Jsonl,
    ".ndjson": Jsonl,
    ".tsv": Tsv,
}
SAVED_DATASET = ("dataset_dict.json", "dataset_info.json", "state.json")


def open_data(
    path: str | Path, images: str | Path | None = None, *, task: str = "", max_side: int = MAX_SIDE
) -> Records:
    """Reads a LLaVA-Instruct .json, a .jsonl, a VLMEvalKit .tsv, a saved `datasets` folder, or a folder with one of them."""
    found = Path(path)
    if not found.exists():
        raise InvalidInputError(f"{found} does not exist. Give a .json, .jsonl or .tsv file, or a folder.")
    if found.is_dir():
        if any((found / name).is_file() for name in SAVED_DATASET):
            return HfFolder(found, images, task=task or "instruct", max_side=max_side)
        found = only_file(found)
    reader = READERS.get(found.suffix.lower())
    if reader is None:
        raise InvalidInputError(
            f"{found} is of no known kind. Known: {', '.join(READERS)}, or a saved datasets folder."
        )
    return reader(found, images, task=task or ("" if reader is Tsv else "instruct"), max_side=max_side)


def only_file(folder: Path) -> Path:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS and path.is_file())
    if len(files) == 1:
        return files[0]
    listed = ", ".join(path.name for path in files[:10]) or "none"
    raise InvalidInputError(
        f"{folder} must hold one data file ({', '.join(READERS)}) or be a saved datasets folder; it holds {listed}. "
        "Give the file itself."
    )


class Turns(Lazy["Sample"]):
    """Turns of records. Holds no pictures: a sample is made anew each time."""

    def __init__(self, turns: Sequence[tuple[Record, int]]) -> None:
        self.turns = turns

    def __len__(self) -> int:
        return len(self.turns)

    def make(self, place: int) -> Sample:
        record, number = self.turns[place]
        return record.samples()[number]


def training_samples(
    path: str | Path,
    images: str | Path | None = None,
    *,
    limit: int | None = None,
    downsample: int | None = None,
    seed: int = 0,
    max_side: int | None = None,
    processor: Any = None,
    model: Any = None,
) -> tuple[Turns, dict[str, Any]]:
    """(samples, facts): at most `limit` turns in a random order, and what a run should remember of them.

    downsample: draw so many conversations first, their image areas equalised (the paper's 30,000).
    processor: the model's; pictures of a shape that it refuses are left out, too. model: words beyond its context, too.
    Every picture is decoded once here, so that one that is broken is counted now and stops nothing later.
    """
    records = open_data(path, images, max_side=max_side or MAX_SIDE)
    areas: AreaSample | None = None
    if downsample is None:
        drawn = draw(_turns(records), limit, seed)
        report = records.report
    else:
        areas = equalise_areas(read_areas(records), downsample, seed=seed)
        report = records.report  # of the whole file; the second reading ends with the last record that is taken
        drawn = draw(_turns(take(records, areas.indices)), limit, seed)
    turns = list(_usable(drawn, report, processor, model))
    if not turns:
        raise InvalidInputError(
            f"{path}: no picture in it can be used; {report.summary()}. The first: {report.listed[0].sentence}"
        )
    Random(seed).shuffle(turns)  # noqa: S311  a search looks at the first ones first
    facts: dict[str, Any] = {
        "data": str(path),
        "images": None if images is None else str(images),
        "samples": len(turns),
        "conversations": len({record.id for record, _ in turns}),
        "seed": seed,
        "limit": limit,
        "downsample": downsample,
        "skipped": report.to_dict(),
    }
    if areas is not None:
        facts["areas"] = {name: value for name, value in areas.to_dict().items() if name != "indices"}
    return Turns(turns), facts


def _turns(records: Iterable[Record]) -> Iterator[tuple[Record, int]]:
    for record in records:
        for number in range(len(record.turns)):
            yield record, number


def _usable(
    turns: Iterable[tuple[Record, int]], report: SkipReport, processor: Any, model: Any
) -> Iterator[tuple[Record, int]]:
    """Without those whose pictures cannot be used; one that several turns share is looked at once."""
    known: dict[tuple[str, int | None], bool] = {}
    context = None if processor is None else context_length(processor, model)
    for record, number in turns:
        key = (record.file, record.row)
        if key not in known:
            pictures = decoded(record, report)
            known[key] = pictures is not None
            if pictures is not None and processor is not None:
                refused = refusal(record, [picture.size for picture in pictures], processor, context)
                if refused is not None:
                    leave_out(report, refused)
                    known[key] = False
        if known[key]:
            yield record, number
