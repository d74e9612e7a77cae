"""`vispco compare searches`: the paper's second table for one model."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.output import check_writable, show

if TYPE_CHECKING:
    from vispco.baselines import Comparison

METHODS = "vtw,fitprune,g-search,p-sigmoid-bo,random-40"
app = typer.Typer(help="Searches side by side.", no_args_is_help=True)


@app.callback()
def group() -> None:
    """Searches side by side."""


@app.command("searches")
def searches(
    model: Annotated[str, typer.Argument(help="A shipped model, a folder, or a hub id.")],
    *,
    budget: Annotated[float, typer.Option(help="A fraction of the unpruned FLOPs.")] = 0.5,
    methods: Annotated[str, typer.Option(help="Names with commas between them.")] = METHODS,
    scorer: Annotated[str, typer.Option(help="Which tokens stay: fastv, sparsevlm, fitprune, random.")] = "fastv",
    samples: Annotated[int, typer.Option(min=1, help="Calibration items of each task.")] = 16,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 32,
    out: Annotated[Path, typer.Option(help="The JSON file to write.")] = Path("runs/compare.json"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Method, FLOPs, cost of the search in FLOPs and seconds, accuracy per task.

    Example:

        vispco compare searches tiny-qwen --budget 0.5 --methods vtw,random-40,single-grid
    """
    check_writable(out)
    from vispco.baselines import compare  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415

    spec = EvaluatorSpec(model=model, scorer={"name": scorer}, split="calibration", limit=samples)
    names = [name.strip() for name in methods.split(",") if name.strip()]
    found = compare(
        spec.build(),
        replace(spec, split="test", limit=test).build(),
        budget,
        names,
        details={"model": model, "scorer": scorer},
        on_method=lambda name: None if json else typer.echo(f"searching: {name}", err=True),
    )
    found.save(out)
    show(found.to_dict(), as_json=json, table=None if json else _table(found, f"{model} at {budget:.0%}, {out}"))


def _table(found: Comparison, title: str) -> Any:
    from rich.table import Table  # noqa: PLC0415

    from vispco.baselines import comparison_table  # noqa: PLC0415

    text = comparison_table(found)
    table = Table(title=title)
    for place, column in enumerate(text.columns):
        table.add_column(column, justify="left" if place == 0 else "right")
    for row in text.rows:
        table.add_row(*row)
    return table
