"""`vispco ask`: a question about one's own picture, answered with all visual tokens and with fewer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.budgets import budget_option, deployed_budget
from vispco.cli.choice import ALLOCATION, COMPENSATE, CONTROLLER
from vispco.cli.completion import complete_models
from vispco.cli.options import MODEL, ModelOptions, spread
from vispco.cli.output import show
from vispco.cli.telling import bar
from vispco.files import check_writable

if TYPE_CHECKING:
    from vispco.asking import AnswerComparison

PRUNER = "The folder of a search, or a saved predictor (in place of --method)."
METHOD = "A published method (visionzip:64), or a chain such as divprune+fastv@9 (default: fastv): {scorers}."
BUDGET = "A fraction of the unpruned language model's FLOPs, met by every prompt: 0.4 or 40%."


@spread
def ask(
    model: Annotated[str, typer.Argument(help=MODEL, autocompletion=complete_models)],
    picture: Annotated[Path, typer.Argument(help="A picture: PNG, JPEG, WebP, GIF, BMP or TIFF.")],
    question: Annotated[str, typer.Argument(help="What to ask about it.")],
    *,
    budget: Annotated[str, budget_option(BUDGET)] = "0.5",
    pruner: Annotated[str | None, typer.Option(help=PRUNER)] = None,
    method: Annotated[str | None, typer.Option(help=METHOD)] = None,
    allocation: Annotated[
        str | None, typer.Option(help=f"{ALLOCATION} [by the run or method]", show_default=False)
    ] = None,
    compensate: Annotated[
        float | None, typer.Option(help=f"{COMPENSATE} [by the run or method]", show_default=False)
    ] = None,
    controller: Annotated[str | None, typer.Option(help=f"{CONTROLLER} [integral]", show_default=False)] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The longest answer.")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Timed answers of each, after one that warms up.")] = 3,
    loading: ModelOptions,
    out: Annotated[
        Path | None, typer.Option(help="The PNG to write (default: PICTURE-survivors.png in this folder).")
    ] = None,
    open_page: Annotated[bool, typer.Option("--open", help="Also write a page with a slider, and open it.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Ask about your own picture: unpruned and pruned, side by side.

    With tokens, FLOPs and milliseconds of both, and a picture of which tokens survive at which layer.

    Examples:

        vispco ask tiny-qwen photo.jpg "how many circles are there?"

        vispco ask tiny-qwen photo.jpg "how many circles are there?" --method sparsevlm --budget 0.3 --open

        vispco ask Qwen/Qwen2.5-VL-3B-Instruct photo.jpg "What does the sign say?" --pruner runs/qwen --budget 0.4
    """
    target = out if out is not None else Path(f"{picture.stem}-survivors.png")
    check_writable(target)
    from vispco.asking import PictureQuestion, PrunerChoice, compare, draw_sheet  # noqa: PLC0415
    from vispco.planning import deployment  # noqa: PLC0415
    from vispco.report.picture import as_seen  # noqa: PLC0415

    choice = PrunerChoice(
        run=pruner,
        method=method,
        budget=deployed_budget(budget, pruner),
        controller=controller,
        allocation=allocation,
        compensate=compensate,
    )
    sample = PictureQuestion.read(picture, question)
    if pruner is not None:
        deployment.read(pruner)  # what is wrong with it is refused before a model is loaded
    with bar(f"{model}, {choice.title}"):
        loaded, processor = loading.load(model)
        found = compare(loaded, processor, sample, choice.pruner(loaded), max_new_tokens=max_new_tokens, rounds=rounds)
    seen = as_seen(sample.images[0], processor)
    files: dict[str, str] = {}
    if found.depth is not None:
        title_line = f"{question}  unpruned: {found.unpruned.answer}  {choice.title}: {found.pruned.answer}"
        files["picture"] = str(draw_sheet(seen, found.depth, found.layers, title_line, target))
    if open_page:
        from vispco.asking.page import write_page  # noqa: PLC0415

        files["page"] = str(write_page(found, seen, target.with_suffix(".html")))
    data = {"model": model, **choice.to_dict(), **found.to_dict(), "files": files}
    show(data, as_json=json, table=_table(found, f"{model}: {question}", files))
    if open_page:
        from vispco.cli.browser import open_in_browser  # noqa: PLC0415

        open_in_browser(Path(files["page"]))


def _table(found: AnswerComparison, title: str, files: dict[str, str]) -> Any:
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from vispco.asking.page import ROWS  # noqa: PLC0415

    lines = [f"{name}: {path}" for name, path in files.items()]
    if found.depth is None:
        lines.append("The token grid of this model is not known, so survivors are not drawn.")
    table = Table(title=escape(title), caption="\n".join(lines), caption_justify="left")
    table.add_column("")
    table.add_column("unpruned")
    table.add_column(escape(found.method))
    for name, text in ROWS:
        table.add_row(name, escape(text(found.unpruned)), escape(text(found.pruned)))
    return table
