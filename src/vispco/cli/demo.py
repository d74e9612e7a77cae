"""`vispco demo`: all of it, on the shipped model or on your own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.budgets import budgets_of, budgets_option
from vispco.cli.choice import ONE_CHAIN, chain_of
from vispco.cli.completion import complete_scorers
from vispco.cli.data import TaskOptions, TrainingOptions, tell_skipped, write_areas
from vispco.cli.options import spread
from vispco.cli.output import fitted_table, show
from vispco.cli.place import OVERWRITE, run_folder
from vispco.cli.telling import draws_bars, say
from vispco.core.progress_lines import ProgressLines
from vispco.core.runs.files import read_json
from vispco.models.model_spec import MODEL, ModelSpec

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.demo import Stage
    from vispco.demo.outcome import OutcomeRow
    from vispco.demo.run import Tell

NO_GAIN = 1.0  # times faster
CALIBRATION = 48  # items of each synthetic task, where --samples does not say: fewer than a search has, to be quick
STAGES: tuple[Stage, ...] = ("load", "search", "sweep", "bench", "examples", "page")

SWEPT = "fastv"  # the scorer of the sweep beside a joint search


@dataclass(frozen=True)
class DemoModel(ModelSpec):
    """The same, with a model to begin with."""

    name: Annotated[str, typer.Option("--model", help=MODEL)] = "tiny-qwen"


@spread
def demo(
    *,
    model: DemoModel,
    out: Annotated[Path, typer.Option(help="The run's folder; report.html is in it.")] = Path("runs/demo"),
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE)] = False,
    scorer: Annotated[str | None, typer.Option(help=ONE_CHAIN, autocompletion=complete_scorers)] = None,
    kernel: Annotated[str, typer.Option(help="The family of curves that is searched.")] = "steps",
    mode: Annotated[str | None, typer.Option(help="joint, predictor, static or line (default: by --scorer).")] = None,
    budgets: Annotated[str, budgets_option()] = ("0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9"),
    asked: TaskOptions,
    training: TrainingOptions,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 16,
    trials: Annotated[int, typer.Option(min=1, help="Configurations of the sweep beside the search.")] = 48,
    timed: Annotated[str, typer.Option(help="Budgets whose time to first token is measured.")] = "0.3,0.5,0.8",
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds.")] = 5,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Prompts at once, when timing (default: chosen by a quick profile).")
    ] = None,
    examples: Annotated[int, typer.Option(min=1, help="Pictures on the page.")] = 8,
    threads: Annotated[int | None, typer.Option(min=1, help="Cores to use (default: all).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """All of it in one command: search, sweep, times and a page.

    Run it again to continue an interrupted demo.

    Examples:

        vispco demo

        vispco demo --model ./my-model --out runs/mine --tasks chartqa=ChartQA.tsv --data conversations.json
    """
    fractions, clocked = budgets_of(budgets), budgets_of(timed)
    folder = run_folder(out, overwrite=overwrite)
    import torch  # noqa: PLC0415

    from vispco.cli.config import facts  # noqa: PLC0415
    from vispco.core.runs.provenance import cores  # noqa: PLC0415
    from vispco.demo import DemoSettings, run  # noqa: PLC0415
    from vispco.demo.outcome import outcome  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.timing import BenchSettings  # noqa: PLC0415

    def learn(processor: Any) -> tuple[Sequence[Sample], dict[str, Any]]:
        samples, about = training.load(asked, processor, seed=seed)
        tell_skipped({"data": about["skipped"]} if "skipped" in about else {}, say)
        write_areas(folder, about)
        return samples, about

    training.check()
    if training.data is None and training.samples is None:
        training = replace(training, samples=CALIBRATION)
    used = threads or cores()
    torch.set_num_threads(used)
    settings = DemoSettings(
        spec=EvaluatorSpec(model=model, scorer=chain_of(scorer or SWEPT), **asked.spec(), limit=test, details=False),
        learn=learn,
        calibration=str(training),
        mode=mode or ("joint" if scorer is None else "predictor"),
        kernel=kernel,
        budgets=tuple(fractions),
        timed=tuple(clocked),
        trials=trials,
        bench=BenchSettings(rounds=rounds, new_tokens=8),
        batch_size=batch_size,
        examples=examples,
        workers=used if used > 1 else 0,
        seed=seed,
    )
    with progress_bar() as tell:
        page = run(settings, folder, facts=facts(), tell=tell)
    rows = outcome(out)
    data = {"report": str(page), "bytes": page.stat().st_size, "rows": [row.to_dict() for row in rows]}
    title = f"{model.name}, {scorer or 'joint search'}: {out}"
    show(data, as_json=json, table=None if json else _table(rows, title, batch_of(out)))
    if not json:
        typer.echo(f"{page} is ready: open it in a browser.")


@contextmanager
def progress_bar() -> Iterator[Tell]:
    """A bar over the whole demo: which stage, what is happening, about how long it will take."""
    from rich.console import Console  # noqa: PLC0415
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn  # noqa: PLC0415
    from rich.text import Text  # noqa: PLC0415

    from vispco.demo import Forecast  # noqa: PLC0415

    forecast, lines = Forecast(), [ProgressLines()]

    class Left(ProgressColumn):
        def render(self, task: Task) -> Text:  # noqa: ARG002
            return Text(f"about {timedelta(seconds=round(forecast.left))} left")

    class Share(BarColumn):
        def render(self, task: Task) -> Any:
            task.completed = forecast.share
            return super().render(task)

    columns = (TextColumn("{task.description}"), Share(), TimeElapsedColumn(), Left())
    console = Console(stderr=True)
    bar = Progress(*columns, console=console, disable=not draws_bars(), transient=True)
    line = bar.add_task("", total=1.0)

    def tell(stage: Stage, fraction: float | None, text: str) -> None:
        if stage != forecast.stage:
            forecast.end()
            for earlier in STAGES[: STAGES.index(stage)]:
                if earlier not in forecast.done:
                    forecast.skip(earlier)
            forecast.begin(stage)
            lines.append(ProgressLines())
        forecast.moved(fraction)
        caption = f"{STAGES.index(stage) + 1}/{len(STAGES)} {stage}: {text}"
        lines[-1].tell(fraction, None if fraction is None else 1.0, caption)
        bar.update(line, description=caption)

    with bar:
        yield tell


def batch_of(out: Path) -> str:
    """At which batch the times are, and who chose it."""
    from vispco.demo.run import BENCH  # noqa: PLC0415

    found = read_json(out / BENCH)
    by = ", chosen by a profile of this device" if found.get("chosen_by_profile") else ""
    return f"batch of {found.get('batch_size')}{by}"


def _table(rows: Sequence[OutcomeRow], title: str, batch: str) -> Any:
    from rich.console import Group  # noqa: PLC0415

    columns = ("budget", "FLOPs", "searched", "of a sweep", "TTFT", "×", "× by FLOPs")
    cells = []
    for row in rows:
        spread_of = "" if row.low is None or row.high is None else f" ± {50 * (row.high - row.low):.1f}"
        cells.append(
            (
                "unpruned" if row.budget >= 1 else f"{row.budget:.0%}",
                _percent(row.fraction),
                _percent(row.accuracy) + spread_of,
                _percent(row.empirical),
                "" if row.ttft_ms is None else f"{row.ttft_ms:.2f}",
                gain(row.speedup),
                "" if row.implied is None else f"{row.implied:.2f}",
            )
        )
    caption = f"TTFT: time to first token in ms, {batch}; ×: how much faster than unpruned"
    return Group(fitted_table(columns, cells, title), caption)


def gain(speedup: float | None) -> str:
    """How much faster it is, or 'no gain'."""
    return "" if speedup is None else "no gain" if speedup < NO_GAIN else f"{speedup:.2f}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}"
