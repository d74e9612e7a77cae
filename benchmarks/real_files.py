"""Are the files of published benchmarks read whole, as their repositories have them?

python benchmarks/real_files.py --chartqa "ChartQA Dataset/test" [--ocrbench OCRBench.json --pictures FOLDER ...]

Neither the data nor a part of it is kept. OCRBench's pictures come from the datasets that it is made of: FOLDER holds
some of them, known by the last two parts of their paths; questions whose pictures are in no folder are not counted.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from figures import Figure, write
from vispco.metrics import read_benchmarks

CHARTQA = 2500  # questions of the test split
OCRBENCH = 166  # those of ChartQA (100) and FUNSD (66), whose pictures are in public repositories


def read(name: str, path: Path, images: Path | None = None) -> dict[str, Any]:
    """Every question with its pictures decoded and its own answer scored."""
    started = time.perf_counter()
    questions = read_benchmarks({name: path}, images=images)
    report = questions.skipped[name]
    wrong = [question.id for question in questions if question.score(question.references[0]) < 1.0]
    return {
        "read": len(questions),
        "skipped": report.count,
        "reasons": dict(report.reasons),
        "own_answer_scored_wrong": len(wrong),
        "examples_scored_wrong": wrong[:5],
        "pictures": len({question.record.handles[0].name for question in questions}),
        "seconds": round(time.perf_counter() - started, 1),
    }


def with_pictures(annotations: Path, folders: list[Path], into: Path) -> Path:
    """The items of OCRBench.json whose pictures are in the folders, in its own layout: links beside its annotations."""
    found = [path for folder in folders for path in sorted(folder.rglob("*.*")) if path.is_file()]
    present = {path.parts[-2:]: path for path in found}  # names alone are not unique: 154.jpg
    items = [item for item in json.loads(annotations.read_text()) if Path(item["image_path"]).parts[-2:] in present]
    for item in items:
        target = into / "OCRBench_Images" / item["image_path"]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            target.hardlink_to(present[target.parts[-2:]].resolve())
    (into / "OCRBench.json").write_text(json.dumps(items))
    print(Counter(item["dataset_name"] for item in items))
    return into / "OCRBench.json"


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--chartqa", type=Path, required=True)
    options.add_argument("--ocrbench", type=Path)
    options.add_argument("--pictures", type=Path, nargs="*", default=[])
    given = options.parse_args()
    details = {"chartqa": read("chartqa", given.chartqa)}
    if given.ocrbench is not None:
        with tempfile.TemporaryDirectory(dir=given.ocrbench.parent) as folder:  # links need one file system
            details["ocrbench"] = read("ocrbench", with_pictures(given.ocrbench, given.pictures, Path(folder)))
    figures = {}
    for name, bar in (("chartqa", CHARTQA), ("ocrbench", OCRBENCH)):
        if name in details:
            figures[f"read.{name}"] = Figure(details[name]["read"], "higher", bar, "questions")
            figures[f"skipped.{name}"] = Figure(details[name]["skipped"], "lower", 0, "questions")
            wrong = details[name]["own_answer_scored_wrong"]
            figures[f"own_answers_wrong.{name}"] = Figure(wrong, "lower", None, "questions")
    write("real_files", figures, details, seed=0)


if __name__ == "__main__":
    main()
