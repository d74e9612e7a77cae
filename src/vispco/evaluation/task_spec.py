"""Evaluation and calibration data as a user names them: synthetic tasks, benchmark files, conversations."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

import typer

from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.data.files import SampleSet, SkipReport
    from vispco.data.sample import Sample
    from vispco.evaluation.spec import EvaluatorSpec
    from vispco.metrics import BenchmarkSet

PER_TASK, PER_TASK_JOINT, _FROM_FILE = 48, 128, 256  # calibration items, where --samples does not say


@dataclass(frozen=True, kw_only=True)
class TaskSpec:
    """What accuracy is measured on; `spec()` is its part of an `EvaluatorSpec`."""

    PANEL: ClassVar[str] = "Evaluation data"

    tasks: Annotated[
        str,
        typer.Option(
            help="'all', names of synthetic tasks, or files of benchmarks or of your own (chartqa=PATH,mine=PATH:METRIC): {benchmarks}."
        ),
    ] = "all"
    data_root: Annotated[
        Path | None, typer.Option(help="A folder with VLMEvalKit's .tsv files, which are found by name.")
    ] = None
    max_side: Annotated[
        int | None, typer.Option(min=1, help="Pictures with a longer side are scaled down on load (default: 4096).")
    ] = None
    encoding: Annotated[str, typer.Option(help="Of .tsv and .csv files.")] = "utf-8"
    protocol: Annotated[
        str, typer.Option(help="Prompts, lengths, pixels and metrics of benchmarks: ours, vlmevalkit or llava.")
    ] = "ours"
    metrics: Annotated[
        str, typer.Option(help="Other metrics for benchmarks (chartqa=relaxed-lenient): {metrics}.", show_default=False)
    ] = ""
    min_pixels: Annotated[int | None, typer.Option(min=1, help="Smaller pictures are scaled up to this.")] = None
    max_pixels: Annotated[int | None, typer.Option(min=1, help="Larger pictures are scaled down to this.")] = None
    max_new_tokens: Annotated[int | None, typer.Option(min=1, help="Where answers are cut off (default: by task).")] = (
        None
    )

    allow_outside: Annotated[
        bool, typer.Option("--allow-outside", help="Read pictures that data names outside of the picture folder.")
    ] = False
    max_image_bytes: Annotated[int, typer.Option(min=1, help="Larger picture files are skipped.")] = 1 << 28
    max_text: Annotated[int, typer.Option(min=1, help="Items with longer texts (characters) are skipped.")] = 100_000
    max_line: Annotated[int, typer.Option(min=1, help="Longer lines of data files (bytes) are skipped.")] = 1 << 28

    def spec(self) -> dict[str, Any]:
        """Fields of an `EvaluatorSpec`. A file that is not there is refused now, before a model is loaded."""
        from vispco.data.files.record import InputLimits  # noqa: PLC0415

        InputLimits(self.allow_outside, self.max_image_bytes, self.max_text, self.max_line).use()
        files, metrics = self._files()
        if files:
            from vispco.metrics import AskSettings  # noqa: PLC0415

            asking: dict[str, Any] = {
                "protocol": self.protocol,
                "metrics": {**metrics, **self._metrics()},
                "min_pixels": self.min_pixels,
                "max_pixels": self.max_pixels,
                "max_new_tokens": self.max_new_tokens,
            }
            AskSettings(**asking)  # a wrong name is refused before a model is loaded
            return {"files": files, "encoding": self.encoding, "max_side": self.max_side, **asking}
        if self.protocol != "ours" or self.metrics or self.min_pixels or self.max_pixels:
            raise InvalidInputError(
                "--protocol, --metrics, --min-pixels and --max-pixels are about benchmarks. Give their files with --tasks "
                "name=PATH or --data-root."
            )
        names = tuple(part.strip() for part in self.tasks.split(",") if part.strip())
        return {"tasks": self.tasks if self.tasks == "all" else names, "max_new_tokens": self.max_new_tokens}

    def _metrics(self) -> dict[str, str]:
        from vispco.metrics import benchmark  # noqa: PLC0415

        found = {}
        for part in filter(None, (part.strip() for part in self.metrics.split(","))):
            name, separator, metric = part.partition("=")
            if not separator:
                raise InvalidInputError(f"--metrics has {part!r}. Write benchmark=metric: chartqa=relaxed-lenient.")
            found[benchmark(name.strip(), own=True).name] = metric.strip()
        return found

    def _files(self) -> tuple[dict[str, str], dict[str, str]]:
        from vispco.metrics import BENCHMARKS, parse_tasks  # noqa: PLC0415

        named = {part.strip() for part in self.tasks.split(",")}
        if self.data_root is None and "=" not in self.tasks and not named & set(BENCHMARKS):
            return {}, {}
        files, metrics = parse_tasks(self.tasks, self.data_root)
        return {name: str(path) for name, path in files.items()}, metrics


@dataclass(frozen=True, kw_only=True)
class CalibrationSpec:
    """Samples that a search or a training is calibrated on."""

    PANEL: ClassVar[str] = "Calibration data"

    data: Annotated[
        Path | None,
        typer.Option(
            help="A .json, .jsonl, .tsv, .csv or .parquet file, or a datasets folder (default: synthetic calibration tasks)."
        ),
    ] = None
    images: Annotated[Path | None, typer.Option(help="The folder of its pictures (default: beside the file).")] = None
    samples: Annotated[
        int | None,
        typer.Option(
            min=1,
            help=f"Items of each synthetic task, or of --data in all (default: {PER_TASK}, {PER_TASK_JOINT} in a joint "
            f"search; {_FROM_FILE}).",
        ),
    ] = None
    downsample: Annotated[
        int | None,
        typer.Option(min=1, help="Draw so many conversations of --data, image areas equalised; the paper's 30000."),
    ] = None

    def check(self) -> None:
        """Say before a model is loaded that the data cannot be read: opens it, up to its first item."""
        if self.data is None:
            if self.images is not None or self.downsample is not None:
                raise InvalidInputError("--images and --downsample are about the file of --data. Give --data, too.")
            return
        from vispco.data.files import open_data  # noqa: PLC0415

        next(iter(open_data(self.data, self.images)))

    def questions(self, tasks: TaskSpec, limit: int, seed: int) -> BenchmarkSet | None:
        """Questions of --data that are held out to report accuracy on; None if --tasks names others or there are none.

        At most half of them. A conversation is no question: its answer is a free text.
        """
        from vispco.data.files import open_data  # noqa: PLC0415
        from vispco.metrics import AskSettings, read_benchmarks  # noqa: PLC0415

        if self.data is None or tasks.tasks != "all" or tasks.data_root is not None:
            return None
        if next(iter(open_data(self.data, self.images))).free_text:
            return None
        name = re.sub(r"[^\w-]", "-", self.data.stem)
        found = read_benchmarks(
            {name: self.data},
            images=self.images,
            limit=2 * limit,
            seed=seed,
            max_side=tasks.max_side,
            settings=AskSettings(max_new_tokens=tasks.max_new_tokens),
        )
        return found.held_out(limit, seed) if len(found) > 1 else None

    def load(
        self,
        tasks: TaskSpec,
        processor: Any,
        *,
        seed: int = 0,
        model: Any = None,
        per_task: int = PER_TASK,
        held_out: BenchmarkSet | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> tuple[Sequence[Sample], dict[str, Any]]:
        """The samples, and what a run should remember of them: file, counts, what was skipped and why.

        per_task: items of each synthetic task, where nothing else is asked for. held_out: questions of --data for a test.
        say: told what was skipped.
        """
        self.check()
        if self.data is None:
            from vispco.data import dataset  # noqa: PLC0415

            spec = tasks.spec()
            names = spec.get("tasks", "all")  # benchmarks are for evaluation, not for training
            drawn = list(dataset("calibration", names, limit=self.samples or per_task, seed=seed))
            return drawn, {"data": "drawn", "tasks": names, "samples": len(drawn), "seed": seed}
        from vispco.data.files.samples import training_samples  # noqa: PLC0415

        samples, about = training_samples(
            self.data,
            self.images,
            limit=self.samples or (None if self.downsample else _FROM_FILE),
            downsample=self.downsample,
            seed=seed,
            max_side=tasks.max_side,
            loaded=(model, processor),
            held_out={(item.record.file, item.record.row) for item in held_out or ()},
        )
        tell_skipped({"data": about["skipped"]} if "skipped" in about else {}, say)
        return samples, about


def describe_tasks(spec: EvaluatorSpec, samples: SampleSet[Sample]) -> dict[str, Any]:
    """What a run should remember of what it was evaluated on: files, counts, what was skipped and why."""
    return {
        "tasks": sorted({sample.task for sample in samples}),
        "files": dict(spec.files),
        "limit": spec.limit,
        "seed": spec.seed,
        "samples": len(samples),
        "skipped": {task: report.to_dict() for task, report in samples.skipped.items()},
    }


def tell_skipped(reports: Mapping[str, SkipReport | Mapping[str, Any]], say: Callable[[str], None]) -> None:
    """A line for each file, by task or name, that has items which cannot be used. A report may be its `to_dict()`."""
    from vispco.data.files import SkipReport  # noqa: PLC0415

    for name, given in reports.items():
        report = given if isinstance(given, SkipReport) else SkipReport.from_dict(given)
        if report.count:
            say(f"{name}: {report.summary()}. The first: {report.listed[0].sentence}")
