"""`vispco zoo`: the shipped models, and how to make them again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from vispco.errors import VispcoError

app = typer.Typer(help="The small models that are shipped with the package.", no_args_is_help=True)
console = Console()


@app.command("list")
def list_models() -> None:
    """Show the shipped models and what they can do."""
    from vispco.zoo import shelf  # noqa: PLC0415

    table = Table()
    table.add_column("model", no_wrap=True)
    for column in ("class", "parameters", "visual tokens", "accuracy", "worst task", "blank"):
        table.add_column(column)
    for name in shelf.names():
        file = shelf.path(name) / shelf.CARD
        if not file.exists():
            table.add_row(name, "not shipped", "", "", "", "", "")
            continue
        card = json.loads(file.read_text())
        scores = {task: score for task, score in card["accuracy"].items() if task != "average"}
        worst = min(scores, key=lambda task: scores[task])
        table.add_row(
            name,
            card["architecture"],
            f"{card['parameters']:,}",
            card["visual_tokens"],
            f"{card['accuracy']['average']:.1%}",
            f"{worst} {scores[worst]:.1%}",
            f"{card['blank']['average']:.1%}",
        )
    console.print(table)


@app.command("train")
def train_model(
    name: Annotated[str, typer.Argument(help="tiny-qwen, tiny-llava or tiny-gemma")],
    out: Annotated[Path | None, typer.Option(help="Folder for the finished model [runs/zoo/NAME]")] = None,
    seed: Annotated[int, typer.Option(help="Weights and pictures follow from it")] = 0,
    steps: Annotated[int | None, typer.Option(help="Another length than the recipe's")] = None,
    resume: Annotated[bool, typer.Option(help="Go on from the last checkpoint, if there is one")] = True,
) -> None:
    """Train a model from scratch; after an interruption, the same command goes on where it stopped."""
    from vispco.zoo.training import train  # noqa: PLC0415

    columns = (BarColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), TimeRemainingColumn())
    try:
        with Progress(*columns, console=console) as bar:
            line = bar.add_task(name, total=None)

            def report(step: int, total: int, text: str) -> None:
                bar.update(line, completed=step, total=total, description=text)

            facts = train(name, out or Path("runs/zoo") / name, seed=seed, steps=steps, resume=resume, report=report)
    except VispcoError as error:
        console.print(f"[red]{error}[/red]")
        raise typer.Exit(1) from error
    for task, score in facts["accuracy"].items():
        console.print(f"{task:12} {score:6.1%}   image blanked {facts['blank'][task]:6.1%}")
