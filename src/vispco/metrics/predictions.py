"""Every answer in a file that VLMEvalKit's own `evaluate` reads, so that anyone can score it elsewhere."""

from __future__ import annotations

import csv
import io
import json
from typing import TYPE_CHECKING

from vispco.core.errors import InvalidInputError
from vispco.core.runs import files
from vispco.metrics.benchmark_samples import BenchmarkSample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from vispco.data.sample import Sample

FIRST = ("index", "question", "prediction", "answer", "image_path", "category")
ENDINGS = (".tsv", ".json")
LISTS = ("vqa", "contains")  # metrics of benchmarks whose tables hold a list of answers


def check_predictions_path(path: Path) -> None:
    """Refuse a name whose format is not known, before anything is computed."""
    if path.suffix.lower() not in ENDINGS:
        raise InvalidInputError(f"{path}: predictions are written as {' or '.join(ENDINGS)}. Give such a name.")


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
        tasks.setdefault(sample.task, []).append(row_of(sample, predictions[sample.id]))
    written = []
    for task, rows in tasks.items():
        target = targets[task]
        if target.suffix.lower() == ".json":
            files.write_json(target, rows)
        else:
            files.write_text(target, as_table(rows))
        written.append(target)
    return written


def row_of(sample: Sample, prediction: str) -> dict[str, str]:
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
    several = len(record.references) > 1 or sample.benchmark.metric in LISTS
    row["answer"] = json.dumps(list(record.references), ensure_ascii=False) if several else record.references[0]
    if sample.task == "vizwiz":
        row["answers"] = row["answer"]
    return row


def as_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Tab-separated text, quoted as pandas reads it."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    stream = io.StringIO()
    writer = csv.DictWriter(stream, names, delimiter="\t", lineterminator="\n", restval="")
    writer.writeheader()
    writer.writerows(rows)
    return stream.getvalue()
