"""`vispco demo`: all of it, on the shipped model or on your own."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import bar, fill_lines, fitted_table, say, show
from vispco.cli.options import AsJson, Overwrite
from vispco.cli.place import run_folder
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import MODEL, ModelSpec
from vispco.report.demo.demo_options import DemoOptions


@dataclass(frozen=True)
class _DemoModel(ModelSpec):
    """The same, with a model to begin with."""

    name: Annotated[str, typer.Option("--model", help=MODEL)] = "tiny-qwen"


def demo(
    *,
    model: _DemoModel,
    out: Annotated[Path, typer.Option(help="The run's folder; report.html is in it.")] = Path("runs/demo"),
    overwrite: Overwrite = False,
    options: DemoOptions,
    asked: TaskSpec,
    calibration: CalibrationSpec,
    threads: Annotated[int | None, typer.Option(min=1, help="Cores to use (default: all).")] = None,
    json: AsJson = False,
) -> None:
    """All of it in one command: search, sweep, times and a page.

    Run it again to continue an interrupted demo.

    Examples:

        vispco demo

        vispco demo --model ./my-model --out runs/mine --tasks chartqa=ChartQA.tsv --data conversations.json
    """
    folder = run_folder(out, overwrite=overwrite)
    from vispco.report.demo.demo_job import DemoJob  # noqa: PLC0415
    from vispco.report.demo.forecast import Forecast  # noqa: PLC0415
    from vispco.report.demo.outcome import caption, large_layers, outcome, outcome_table  # noqa: PLC0415

    job = DemoJob(model=model, options=options, tasks=asked, calibration=calibration, threads=threads)
    with bar(f"{model.name}: demo") as shown:
        page = job.run(folder, facts(), tell=Forecast(shown.tell), say=say)
    rows = outcome(out)
    data = {"report": str(page), "bytes": page.stat().st_size, "rows": rows}
    title = f"{model.name}, {options.scorer or 'joint search'}: {out}"
    lead = fill_lines(large_layers(out), sys.stdout)
    parts = [*([lead] if lead else []), fitted_table(*outcome_table(rows), title), caption(out)]
    show(data, as_json=json, table=None if json else parts)
    if not json:
        typer.echo(f"{page} is ready: open it in a browser.")
