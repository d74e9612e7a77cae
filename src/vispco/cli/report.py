"""`vispco report` and `vispco plot`: what runs look like, as one page or as figures."""

from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.console import show
from vispco.cli.options import AsJson
from vispco.cli.place import output_file
from vispco.core.runs.run_record import record_output


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
