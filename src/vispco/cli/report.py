"""`vispco report`, `plot` and `paper`: a page about runs, their figures, and every table of the paper for any model."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.console import say, show
from vispco.cli.options import AsJson
from vispco.cli.place import output_file
from vispco.core.errors import needs_extra
from vispco.core.runs.files import read_json
from vispco.core.runs.run_record import record_output
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.report.paper.paper_steps import PaperSettings


def report(
    runs: Annotated[list[Path], typer.Argument(help="Folders of searches and sweeps; several are overlaid.")],
    *,
    out: Annotated[Path | None, typer.Option(help="The page to write [report.html in the first folder]")] = None,
    json: AsJson = False,
) -> None:
    """One self-contained page about runs.

    Frontier, budget slider, schedules, surviving tokens, provenance.

    Example:

        vispco report runs/search runs/sweep --out report.html
    """
    from vispco.report import write  # noqa: PLC0415

    path = write(runs, output_file(out, runs, "report.html", "vispco-report"))
    record_output(path)
    show(
        {"report": str(path), "bytes": path.stat().st_size},
        as_json=json,
        table=f"{path} is ready: open it in a browser.",
    )


def plot(
    runs: Annotated[list[Path], typer.Argument(help="Folders of searches and sweeps.")],
    *,
    out: Annotated[Path | None, typer.Option(help="The folder for the figures [figures in the first run]")] = None,
    form: Annotated[str, typer.Option("--format", help="png, svg or pdf.")] = "png",
    json: AsJson = False,
) -> None:
    """The paper's figures that these runs have data for.

    Example:

        vispco plot runs/search runs/sweep --format svg
    """
    from vispco.report.plots import figures  # noqa: PLC0415

    first = runs[0] if runs[0].is_dir() else runs[0].parent
    files = [str(path) for path in figures(runs, first / "figures" if out is None else out, form)]
    show({"figures": files}, as_json=json, table="\n".join(files))


def paper(
    model: ModelSpec,
    others: Annotated[list[str] | None, typer.Argument(help="Further models, side by side (Table 3).")] = None,
    *,
    settings: PaperSettings,
    asked: TaskSpec,
    out: Annotated[Path, typer.Option(help="The folder to write to; paper.html is in it.")] = Path("runs/paper"),
    json: AsJson = False,
) -> None:
    """Every table and figure of the VisPCO paper, measured on your model.

    Runs sweep, compare, search and bench one after the other, and writes paper.html, .json, .tex and .csv. The same
    command continues what was stopped. On tiny-qwen it takes about half an hour of one core.

    Examples:

        vispco paper tiny-qwen --out runs/paper

        vispco paper tiny-qwen tiny-llava --out runs/both
    """
    for what, extra, module in (("Figures", "plots", "matplotlib"), ("The grid", "search", "optuna")):
        with needs_extra(f"{what} of vispco paper need {module}", extra):
            __import__(module)
    from vispco.report.paper.paper_run import run_paper  # noqa: PLC0415

    models = [replace(model, name=name) for name in dict.fromkeys((model.name, *(others or ())))]
    page = run_paper(models, settings, asked, out, say)
    found = read_json(out / "paper.json")
    text = "\n\n".join(about["summary"] for about in found["models"].values())
    show(found, as_json=json, table=f"{text}\n\n{page} is ready: open it in a browser.")
