"""`vispco search`: from budgets to schedules, by gradient descent; and `vispco export`, one of them as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.output import check_writable, show, write_json
from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.frontier import Frontier


def numbers(text: str) -> list[float]:
    """Fractions as a person types them: 0.2,0.5,0.9."""
    try:
        return [float(part) for part in text.split(",") if part.strip()]
    except ValueError as error:
        raise InvalidInputError(f"The budgets {text!r} cannot be read. Give fractions such as 0.2,0.5,0.9.") from error


def search(
    model: Annotated[str, typer.Argument(help="A shipped model, a folder, or a hub id.")],
    *,
    out: Annotated[Path, typer.Option(help="The run directory.")] = Path("runs/search"),
    scorer: Annotated[str, typer.Option(help="Which tokens stay: fastv, sparsevlm, fitprune, random.")] = "fastv",
    kernel: Annotated[str, typer.Option(help="The family of curves that is searched.")] = "steps",
    mode: Annotated[str, typer.Option(help="static, predictor (a schedule for each input) or line.")] = "static",
    solver: Annotated[str | None, typer.Option(help="lagrangian, projection or table [what measured best]")] = None,
    budgets: Annotated[str, typer.Option(help="Fractions of the unpruned FLOPs.")] = "0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    tasks: Annotated[str, typer.Option(help="'all', or names with commas between them.")] = "all",
    samples: Annotated[int, typer.Option(min=1, help="Calibration items of each task.")] = 24,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task, for the frontier's accuracies.")] = 32,
    cost: Annotated[str, typer.Option(help="exact or paper.")] = "exact",
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Find the schedule on the Pareto frontier for each budget, and keep all of it in a run directory.

    Examples:

        vispco search tiny-qwen --out runs/qwen

        vispco search tiny-qwen --mode predictor --kernel steps --budgets 0.3,0.5
    """
    fractions = numbers(budgets)
    check_writable(out / "config.json")
    from vispco.data import dataset  # noqa: PLC0415
    from vispco.loading import load  # noqa: PLC0415
    from vispco.search.run import search as run  # noqa: PLC0415

    names = tasks if tasks == "all" else [name.strip() for name in tasks.split(",") if name.strip()]
    loaded, processor = load(model)
    frontier = run(
        loaded,
        processor,
        list(dataset("calibration", tasks=names, limit=samples)),
        scorer=scorer,
        kernel=kernel,
        mode=mode,  # type: ignore[arg-type]
        solver=solver,
        budgets=fractions,
        directory=out,
        test=list(dataset("test", tasks=names, limit=test)),
        cost=cost,
        show=not json,
        say=lambda line: None if json else typer.echo(line, err=True),
    )
    show(frontier.to_dict(), as_json=json, table=None if json else points_table(frontier, f"{model}: {out}", cost))


def export(
    run: Annotated[Path, typer.Argument(help="The directory of a search.")],
    *,
    budget: Annotated[float, typer.Option(help="A fraction of the unpruned FLOPs.")] = 0.5,
    out: Annotated[Path, typer.Option(help="The JSON file to write.")] = Path("schedule.json"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON, too.")] = False,
) -> None:
    """Write the static schedule that a search found for a budget.

    Example:

        vispco export runs/qwen --budget 0.4 --out schedule.json
    """
    check_writable(out)
    from vispco.search import deploy  # noqa: PLC0415

    schedule = deploy.export(run, budget)
    write_json(out, schedule.to_dict())
    show(schedule.to_dict(), as_json=json, table=f"{out}: {len(schedule.retention)} layers, {budget:.0%} of the FLOPs")


def points_table(frontier: Frontier, title: str, cost: str) -> Any:
    """The points of a frontier, cheapest first."""
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title)
    for column in (f"FLOPs ({cost})", "accuracy", "95 % interval", "KL", "retention by layer"):
        table.add_column(column, justify="left" if "layer" in column else "right")
    for point in sorted(frontier.points, key=lambda p: p.cost[cost]["fraction"]):
        table.add_row(
            f"{point.cost[cost]['fraction']:.1%}",
            f"{point.accuracy:.1%}",
            f"{point.low:.1%} - {point.high:.1%}",
            "" if point.kl is None else f"{point.kl:.3g}",
            " ".join(f"{r:.2f}" for r in point.schedule.tensor().view(-1, point.schedule.num_layers)[0].tolist()),
        )
    return table
