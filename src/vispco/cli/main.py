"""`vispco`: the commands, and how they fail - in one sentence, with a non-zero exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from vispco.cli import compare, evaluate, info, report, search, sweep, zoo
from vispco.errors import VispcoError
from vispco.version import __version__

INTERRUPTED = 130

app = typer.Typer(
    name="vispco",
    help="Which visual tokens a vision-language model can do without, at which layer, for a given budget.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("evaluate")(evaluate.evaluate)
app.command("info")(info.info)
app.command("search")(search.search)
app.command("export")(search.export)
app.command("sweep")(sweep.sweep)
app.add_typer(compare.app, name="compare")
app.command("report")(report.report)
app.command("plot")(report.plot)
app.add_typer(zoo.app, name="zoo")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vispco {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    debug: Annotated[bool, typer.Option(help="Show the full traceback of an error.")] = False,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Options that come before a command."""
    del version
    if debug:
        os.environ["VISPCO_DEBUG"] = "1"


def run() -> None:
    """The entry point of the `vispco` command."""
    try:
        app()
    except VispcoError as error:
        _fail(str(error), 1)
    except KeyboardInterrupt:
        _fail("interrupted; nothing that was finished is lost.", INTERRUPTED)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), 1)


def _fail(sentence: str, code: int) -> None:
    if os.environ.get("VISPCO_DEBUG"):
        raise  # noqa: PLE0704 - called from an except block only
    typer.secho(f"error: {sentence}", fg="red", err=True)
    sys.exit(code)


if __name__ == "__main__":
    run()
