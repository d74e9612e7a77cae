"""`vispco paper`: every table and figure of the paper for any model, by the commands that exist."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.console import say, show
from vispco.cli.options import AsJson, spread
from vispco.core.errors import needs_extra
from vispco.core.runs import files
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.report.paper.paper_steps import PaperSettings


@spread
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

    Runs sweep, compare, search and bench one after the other, and writes paper.html, .json, .tex and .csv. The same command
    continues what was stopped. On tiny-qwen it takes about half an hour of one core.

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
    found = files.read_json(out / "paper.json")
    text = "\n\n".join(about["summary"] for about in found["models"].values())
    show(found, as_json=json, table=f"{text}\n\n{page} is ready: open it in a browser.")
