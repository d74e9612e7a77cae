"""Samples from files: `SampleSet`, which counts what was left out, and conversations as samples for a search."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, TypeVar, overload

from PIL.Image import Image

from vispco.core.errors import InvalidInputError
from vispco.data.files.hf_folder import HfFolder, parquet_files
from vispco.data.files.json_files import Jsonl, LlavaInstruct
from vispco.data.files.record import (
    MAX_SIDE,
    ConversationSample,
    Record,
    Records,
    Skipped,
    SkippedItemError,
    SkipReport,
)
from vispco.data.files.sampling import AreaSample, draw, equalise_areas, read_areas, take
from vispco.data.files.tsv import Tsv
from vispco.data.sample import Sample

_ENDLESS = 10**9  # what tokenizers without a limit have as their longest text, at least
_NARROW = 50  # a side this many times as long as the other: image processors have limits, and this is below all of them

_SampleT_co = TypeVar("_SampleT_co", bound="Sample", covariant=True)


class SampleSet(Sequence[_SampleT_co]):
    """Samples in order; `skipped` has a report for each task that was read from a file."""

    def __init__(self, items: Sequence[_SampleT_co], skipped: Mapping[str, SkipReport] | None = None) -> None:
        self.items, self.skipped = items, dict(skipped or {})

    @staticmethod
    def of(samples: Sequence[Sample]) -> SampleSet[Sample]:
        """The samples as a set: a set as it is, any other sequence with nothing skipped."""
        return samples if isinstance(samples, SampleSet) else SampleSet(samples)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> _SampleT_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[_SampleT_co]: ...
    def __getitem__(self, index: int | slice) -> _SampleT_co | Sequence[_SampleT_co]:
        return self.items[index]

    def for_model(self, model: Any, processor: Any) -> SampleSet[_SampleT_co]:  # noqa: ARG002  for sets of files
        """As this model is asked, without the samples that its processor refuses; these are counted in `skipped`."""
        return self

    def figures(self, scores: Mapping[str, float]) -> dict[str, dict[str, float]]:  # noqa: ARG002
        """Figures by task besides the mean score, from the scores by id."""
        return {}


def decoded(record: Record, report: SkipReport) -> list[Image] | None:
    """The pictures; None if one is broken, which is then counted."""
    try:
        return record.images()
    except SkippedItemError as error:
        report.leave_out(error.skipped)
        return None


def refusal(
    record: Record, sizes: Sequence[tuple[int, int]], processor: Any, context: int | None = None
) -> Skipped | None:
    """Why the record cannot be asked: too many words for the model, or pictures that the processor cannot read.

    Only pictures of an odd shape are tried. context: the tokens that the model takes, where known.
    """
    words = [record.prompt, record.hint, *record.options.values()]
    words += [text for turn in record.turns for text in (turn.instruction, turn.answer)]
    if context is not None and sum(map(len, words)) > context:  # a token has at least one character
        tokens = max(len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]) for text in words)
        if tokens > context:
            detail = f"it has {tokens:,} tokens of text; the model's context has {context:,}"
            return Skipped("beyond the context", record.file, record.row, detail, record.id)
    if all(max(size) <= _NARROW * min(size) for size in sizes):
        return None
    try:
        for picture in record.images():
            processor.image_processor(images=[picture], return_tensors="pt")
    except SkippedItemError as error:
        return error.skipped
    except (ValueError, ZeroDivisionError, RuntimeError) as error:
        shown = " and ".join(f"{width} × {height}" for width, height in sizes)
        detail = f"its image of {shown} pixels cannot be read by the model's processor ({error})"
        return Skipped("unusable shape", record.file, record.row, detail, record.id)
    return None


_READERS: dict[str, type[LlavaInstruct | Tsv]] = {
    ".json": LlavaInstruct,
    ".jsonl": Jsonl,
    ".ndjson": Jsonl,
    ".tsv": Tsv,
    ".csv": Tsv,
}
_SAVED_DATASET = ("dataset_dict.json", "dataset_info.json", "state.json")


def open_data(
    path: str | Path,
    images: str | Path | None = None,
    *,
    task: str = "",
    encoding: str = "utf-8",
    max_side: int = MAX_SIDE,
) -> Records:
    """A reader for a .json, .jsonl, .tsv, .csv or .parquet file, a saved `datasets` folder, or a folder with one of them.

    A folder with ChartQA's layout (`test/test_human.json`, `test/test_augmented.json`, `test/png`) is read whole.
    encoding: of tables.
    """
    files = data_files(path)
    if files[0].suffix.lower() in (".arrow", ".parquet"):
        return HfFolder(path, images, task=task or "instruct", max_side=max_side)
    if len(files) > 1:
        return _Joined(Path(path), [open_data(file, images, task=task, max_side=max_side) for file in files])
    reader = _READERS.get(files[0].suffix.lower())
    if reader is None:
        raise InvalidInputError(
            f"{files[0]} is of no known kind. Known: {', '.join(_READERS)}, .parquet, or a saved datasets folder."
        )
    if reader is Tsv:
        return Tsv(files[0], images, task=task, encoding=encoding, max_side=max_side)
    return reader(files[0], images, task=task or "instruct", max_side=max_side)


def data_files(path: str | Path) -> list[Path]:
    """The files that hold the items of a data file or folder."""
    found = Path(path)
    if not found.exists():
        raise InvalidInputError(
            f"{found} does not exist. Give a .json, .jsonl, .tsv, .csv or .parquet file, or a folder."
        )
    if not found.is_dir():
        return [found]
    if any((found / name).is_file() for name in _SAVED_DATASET):
        return sorted(found.rglob("*.arrow")) or [found / "missing.arrow"]  # the reader says what is wrong
    files = sorted(file for file in found.iterdir() if file.suffix.lower() in _READERS and file.is_file())
    published = [file for file in files if file.name.startswith(f"{found.name}_")]  # ChartQA: test/test_human.json
    if len(files) == 1:
        return files
    if (found / "png").is_dir() and published:
        return published
    if not files and (parquet := parquet_files(found)):
        return parquet
    listed = ", ".join(file.name for file in files[:10]) or "none"
    raise InvalidInputError(
        f"{found} must hold one data file ({', '.join(_READERS)}) or be a saved datasets folder; it holds {listed}. "
        "Give the file itself."
    )


class _Joined(Records):
    """Several files, one after another."""

    def __init__(self, folder: Path, readers: Sequence[Records]) -> None:
        super().__init__(folder, task=readers[0].task, max_side=readers[0].max_side)
        self.readers = readers

    def _read(self) -> Iterator[Record | Skipped]:
        for reader in self.readers:
            yield from reader._read()  # noqa: SLF001  the same class


def training_samples(
    path: str | Path,
    images: str | Path | None = None,
    *,
    limit: int | None = None,
    downsample: int | None = None,
    seed: int = 0,
    max_side: int | None = None,
    loaded: tuple[Any, Any] | None = None,
    held_out: Collection[tuple[str, int | None]] = (),
) -> tuple[list[ConversationSample], dict[str, Any]]:
    """(samples, facts): at most `limit` turns in a random order, and what a run should remember of them.

    downsample: the number of conversations drawn first, their image areas equalised (the paper's 30,000).
    loaded: (model, processor); pictures that the processor refuses and words beyond the model's context are left out, too.
    held_out: (file, row) of the records that are left for a test.
    Every picture is decoded once here, so that one that is broken is counted now and stops nothing later.
    """
    records = open_data(path, images, max_side=max_side or MAX_SIDE)
    areas: AreaSample | None = None
    if downsample is None:
        drawn = draw(_turns(records, held_out), limit, seed)
        report = records.report
    else:
        areas = equalise_areas(read_areas(records), downsample, seed=seed)
        report = records.report  # of the whole file; the second reading ends with the last record that is taken
        drawn = draw(_turns(take(records, areas.indices), held_out), limit, seed)
    turns = list(_usable(drawn, report, *(loaded or (None, None))))
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
    return [record.samples()[number] for record, number in turns], facts


def _turns(records: Iterable[Record], held_out: Collection[tuple[str, int | None]]) -> Iterator[tuple[Record, int]]:
    for record in records:
        for number in range(0 if (record.file, record.row) in held_out else len(record.turns)):
            yield record, number


def _usable(
    turns: Iterable[tuple[Record, int]], report: SkipReport, model: Any, processor: Any
) -> Iterator[tuple[Record, int]]:
    """Without those whose pictures cannot be used; one that several turns share is checked once."""
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
                    report.leave_out(refused)
                    known[key] = False
        if known[key]:
            yield record, number


def context_length(processor: Any, model: Any = None) -> int | None:
    """The number of tokens that a prompt may have, as far as the model's config or its tokenizer says."""
    text = None if model is None else getattr(model.config, "get_text_config", lambda: model.config)()
    known = [
        getattr(text, "max_position_embeddings", None),
        getattr(getattr(processor, "tokenizer", None), "model_max_length", None),
    ]
    return min((size for size in known if isinstance(size, int) and 0 < size < _ENDLESS), default=None)
