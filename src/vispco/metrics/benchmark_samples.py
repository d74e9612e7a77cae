"""Rows of benchmark files as samples, each with its prompt, answers and metric; and predictions as VLMEvalKit's tables."""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from PIL.Image import Image

from vispco.core.errors import InvalidInputError
from vispco.core.runs import files
from vispco.data.files.pictures import within_pixels
from vispco.data.files.record import MAX_SIDE, Record, SkipReport
from vispco.data.files.samples import SampleSet, context_length, decoded, open_data, refusal
from vispco.data.files.sampling import draw, draw_groups
from vispco.data.sample import Sample
from vispco.metrics.benchmark import Benchmark, benchmark
from vispco.metrics.protocols import AskSettings, protocol


@dataclass(frozen=True)
class BenchmarkSample:
    """One question of a benchmark; it knows how its answer is scored.

    sizes: of its pictures, in pixels. settings: prompt, metric, answer length and pixel bounds.
    """

    record: Record
    benchmark: Benchmark
    sizes: tuple[tuple[int, int], ...]
    settings: AskSettings = field(default_factory=AskSettings)
    replaced: tuple[Image, ...] | None = field(default=None, repr=False, compare=False)
    given_id: str = ""
    history = ()

    @property
    def id(self) -> str:
        return self.given_id or f"{self.benchmark.name}/{self.record.id}"

    @property
    def task(self) -> str:
        return self.benchmark.name

    @property
    def question(self) -> str:
        """The prompt, in the words of the protocol."""
        return protocol(self.settings.protocol).prompt(self.benchmark, self.record, self.settings.family)

    @property
    def answer(self) -> str:
        """The answer, where there is one; empty where people gave several, and the model's own is used instead."""
        given = [reference for reference in self.record.references if reference.strip()]
        return given[0] if len({reference.strip().lower() for reference in given}) == 1 else ""

    @property
    def references(self) -> tuple[str, ...]:
        return self.record.references

    @property
    def max_new_tokens(self) -> int:
        return self.settings.answer_length(self.benchmark)

    @property
    def area(self) -> int:
        """Pixels of its pictures."""
        return sum(width * height for width, height in self.sizes)

    @property
    def image(self) -> Image:
        """The first picture."""
        return self.images[0]

    @property
    def images(self) -> tuple[Image, ...]:
        if self.replaced is not None:
            return self.replaced
        low, high = self.settings.pixels(self.benchmark)
        pictures = self.record.images()
        return tuple(within_pixels(picture, low, high, self.settings.side_multiple) for picture in pictures)

    @property
    def frames_per_second(self) -> float | None:
        return self.record.frames_per_second

    @property
    def num_images(self) -> int:
        return len(self.sizes)

    def with_images(self, images: Sequence[Image]) -> BenchmarkSample:
        return replace(self, replaced=tuple(images), sizes=tuple(image.size for image in images))

    def with_id(self, identity: str) -> BenchmarkSample:
        return replace(self, given_id=identity)

    def score(self, prediction: str) -> float:
        """In [0, 1], by the metric of the protocol."""
        return self.settings.score(self.benchmark, prediction, self.record)


class BenchmarkSet(SampleSet[BenchmarkSample]):
    """The rows of benchmark files; `skipped` has a report for each benchmark."""

    def for_model(self, model: Any, processor: Any) -> BenchmarkSet:
        """Asked as the protocol asks this model's family, without those whose pictures the processor refuses.

        A protocol may have a chat template of its own, which then takes the place of the processor's.
        """
        family = str(model.config.model_type)
        patches = [getattr(processor.image_processor, name, None) for name in ("patch_size", "merge_size")]
        side = math.prod(size for size in patches if isinstance(size, int)) if None not in patches else 1
        context, kept = context_length(processor, model), []
        for item in self.items:
            settings = replace(item.settings, family=family, side_multiple=side)
            template = protocol(settings.protocol).chat_template(family)
            if template is not None:
                processor.chat_template = template
            refused = refusal(item.record, item.sizes, processor, context)
            if refused is None:
                kept.append(replace(item, settings=settings))
            else:
                self.skipped[item.task].leave_out(refused)
        self._require(kept)
        return BenchmarkSet(kept, self.skipped)

    def figures(self, scores: Mapping[str, float]) -> dict[str, dict[str, float]]:
        """Further figures of each benchmark that has some, from the scores by id."""
        found = {}
        for task in self.skipped:
            items = [item for item in self.items if item.task == task]
            compute = items[0].benchmark.figures if items else None
            if compute is not None:
                found[task] = compute([(item.record, scores[item.id]) for item in items])
        return found

    def held_out(self, limit: int, seed: int) -> BenchmarkSet:
        """At most `limit` of the questions and at most half of them, so that the others are left for a search."""
        kept = draw(self.items, min(limit, len(self) // 2), seed)
        return BenchmarkSet(kept, self.skipped)

    def _require(self, kept: Sequence[BenchmarkSample]) -> None:
        for task in self.skipped:
            if not any(item.task == task for item in kept):
                report = self.skipped[task]
                raise InvalidInputError(
                    f"Nothing of {task} can be used; {report.summary()}. The first: {report.listed[0].sentence}"
                )


_AS_PUBLISHED = AskSettings()


def read_benchmarks(
    files: Mapping[str, str | Path],
    *,
    images: str | Path | None = None,
    limit: int | None = None,
    seed: int = 0,
    encoding: str = "utf-8",
    max_side: int | None = None,
    settings: AskSettings = _AS_PUBLISHED,
) -> BenchmarkSet:
    """The questions of each benchmark's file; with `limit`, at most that number of each, drawn by the seed.

    Rows that are scored together (MME's pairs, MMBench's rotations) are drawn together. Every picture is decoded once, to
    know its size and that it is whole, and forgotten. settings: how they are asked and scored.
    """
    items: list[BenchmarkSample] = []
    reports: dict[str, SkipReport] = {}
    for name, file in files.items():
        entry = benchmark(name, own=True)
        records = open_data(file, images, task=entry.name, encoding=encoding, max_side=max_side or MAX_SIDE)
        asked = (replace(record, prompt=entry.prompt(record)) for record in records)
        chosen = draw(asked, limit, seed) if entry.group is None else draw_groups(asked, entry.group, limit, seed)
        for record in chosen:
            pictures = decoded(record, records.report)
            if pictures is not None:
                sizes = tuple(picture.size for picture in pictures)
                items.append(BenchmarkSample(record, entry, sizes, settings))
        reports[entry.name] = records.report
    found = BenchmarkSet(items, reports)
    found._require(items)  # noqa: SLF001  the same class
    return found


FIRST = ("index", "question", "prediction", "answer", "image_path", "category")
_ENDINGS = (".tsv", ".json")
_LISTS = ("vqa", "contains")  # metrics of benchmarks whose tables hold a list of answers


def check_predictions_path(path: Path) -> None:
    """Refuse a name whose format is not known, before anything is computed."""
    if path.suffix.lower() not in _ENDINGS:
        raise InvalidInputError(f"{path}: predictions are written as {' or '.join(_ENDINGS)}. Give such a name.")


def prediction_files(path: Path, samples: Iterable[Sample]) -> dict[str, Path]:
    """The file of each task: the given one, or NAME-TASK.tsv where there are several."""
    tasks = list(dict.fromkeys(sample.task for sample in samples))
    return {task: path if len(tasks) == 1 else path.with_name(f"{path.stem}-{task}{path.suffix}") for task in tasks}


def write_predictions(path: Path, samples: Sequence[Sample], predictions: Mapping[str, str]) -> list[Path]:
    """Write the answers by id; gives the files. With several tasks, each has its own: NAME-TASK.tsv."""
    check_predictions_path(path)
    targets = prediction_files(path, samples)
    tasks: dict[str, list[dict[str, str]]] = {}
    for sample in samples:
        tasks.setdefault(sample.task, []).append(_row_of(sample, predictions[sample.id]))
    written = []
    for task, rows in tasks.items():
        target = targets[task]
        if target.suffix.lower() == ".json":
            files.write_json(target, rows)
        else:
            # Tab-separated text, quoted as pandas reads it.
            names = list(dict.fromkeys(name for row in rows for name in row))
            stream = io.StringIO()
            writer = csv.DictWriter(stream, names, delimiter="\t", lineterminator="\n", restval="")
            writer.writeheader()
            writer.writerows(rows)
            files.write_text(target, stream.getvalue())
        written.append(target)
    return written


def _row_of(sample: Sample, prediction: str) -> dict[str, str]:
    """One row: VLMEvalKit's columns, and the other columns of the benchmark's own table."""
    row = dict.fromkeys(FIRST, "") | {"index": sample.id, "question": sample.question, "prediction": prediction}
    row |= {"answer": sample.answer, "category": sample.task}
    if not isinstance(sample, BenchmarkSample):
        return row
    record = sample.record
    row |= {name: str(value) for name, value in record.meta.items()}
    row |= {"index": record.id, "question": record.question, **record.options}
    if record.hint:
        row["hint"] = record.hint
    several = len(record.references) > 1 or sample.benchmark.metric in _LISTS
    row["answer"] = json.dumps(list(record.references), ensure_ascii=False) if several else record.references[0]
    if sample.task == "vizwiz":
        row["answers"] = row["answer"]
    return row
