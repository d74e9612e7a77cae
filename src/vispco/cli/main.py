"""`vispco`: the commands. A failure is one sentence and a non-zero exit code."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import warnings
from typing import Annotated

import typer

from vispco.cli import (
    ask,
    bench,
    check,
    compare,
    config,
    console,
    demo,
    evaluate,
    info,
    play,
    profile,
    recommend,
    report,
    search,
    serve,
    sweep,
    train,
    vllm_args,
    zoo,
)
from vispco.cli.names import Group
from vispco.core.errors import VispcoError
from vispco.version import __version__

_FAILED, INTERRUPTED = 1, 130
STOPPED = "Interrupted. What was finished is kept; run the same command again to continue."
_STARTS_OVER = "Interrupted. Nothing was kept; the same command starts from the beginning."
# commands that keep their work
CONTINUES = ("demo", "recommend", "search", "sweep", "compare", "zoo", "train", "paper")

_NOTED: set[tuple[str, str]] = set()

_START, _FIND, _MEASURE, _SHOW, _MODELS = "Try it", "Find schedules", "Measure", "Look and take along", "Models"
app = typer.Typer(
    name="vispco",
    cls=Group,
    help="Which visual tokens a vision-language model can do without, at which layer, for a given budget.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("demo", rich_help_panel=_START)(demo.demo)
app.command("ask", rich_help_panel=_START)(ask.ask)
app.command("play", rich_help_panel=_START)(play.play)
app.command("serve", rich_help_panel=_START)(serve.serve)
app.command("vllm-args", rich_help_panel=_START)(vllm_args.vllm_args)
app.command("recommend", rich_help_panel=_FIND)(recommend.recommend)
app.command("search", rich_help_panel=_FIND)(search.search)
app.command("sweep", rich_help_panel=_FIND)(sweep.sweep)
app.command("train", rich_help_panel=_FIND)(train.train)
app.command("evaluate", rich_help_panel=_MEASURE)(evaluate.evaluate)
app.command("bench", rich_help_panel=_MEASURE)(bench.bench)
app.command("profile", rich_help_panel=_MEASURE)(profile.profile)
app.add_typer(compare.app, name="compare", rich_help_panel=_MEASURE)
app.command("paper", rich_help_panel=_MEASURE)(report.paper)
app.command("report", rich_help_panel=_SHOW)(report.report)
app.command("plot", rich_help_panel=_SHOW)(report.plot)
app.command("export", rich_help_panel=_SHOW)(search.export)
app.command("info", rich_help_panel=_MODELS)(info.info)
app.command("check", rich_help_panel=_MODELS)(check.check)
app.add_typer(zoo.app, name="zoo", rich_help_panel=_MODELS)
config.configure(app)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"vispco {__version__}")
        raise typer.Exit


@app.callback()
def options(
    *,
    debug: Annotated[bool, typer.Option("--debug", help="Show the full traceback of an error.")] = False,
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
    warnings.showwarning = _note
    console.begin()  # a command begins again, with its own options
    if threading.current_thread() is threading.main_thread():
        # as Ctrl-C: workers are stopped, and nothing half-written is left
        signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        app()
    except VispcoError as error:
        _fail(str(error), _FAILED)
    except (config.StoppedByUserError, KeyboardInterrupt):
        _fail(_interruption(sys.argv[1:]), INTERRUPTED)
    except OSError as error:
        _fail(f"{error.strerror or error}: {error.filename}" if error.filename else str(error), _FAILED)
    except Exception as error:  # noqa: BLE001 - a person gets a sentence, whatever it was
        message = " ".join(str(error).split()) or "no message"
        _fail(f"{type(error).__name__}: {message} (`vispco --debug ...` shows where it comes from.)", _FAILED)


def _interruption(arguments: list[str]) -> str:
    """What an interrupted command says: whether its work is kept."""
    command = next((word for word in arguments if not word.startswith("-")), "")
    return STOPPED if command in CONTINUES else _STARTS_OVER


def _note(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """A warning as a line for people, once: what differs from batch to batch after its first number is not repeated."""
    text = " ".join(str(message).split())
    start = re.match(r"\D*[\d.]*", text)
    key = (category.__name__, start[0] if start else text)
    if key not in _NOTED:
        _NOTED.add(key)
        console.SAID.warning("%s", text)


def _fail(sentence: str, code: int) -> None:
    if os.environ.get("VISPCO_DEBUG") and code != INTERRUPTED:
        raise  # noqa: PLE0704 - called from an except block only
    console.note_error(sentence)
    typer.secho(console.fill_lines(f"error: {sentence}", sys.stderr), fg="red", err=True)
    sys.stderr.flush()
    console.end()
    sys.exit(code)


if __name__ == "__main__":
    run()
