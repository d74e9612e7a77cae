"""`vispco ask`: a question about one's own picture, answered with all visual tokens and with fewer."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.choice import PrunerOptions
from vispco.cli.options import spread
from vispco.cli.output import show
from vispco.cli.telling import bar
from vispco.core.runs.files import check_writable
from vispco.models.model_spec import ModelSpec

if TYPE_CHECKING:
    from vispco.serving.ask import AnswerComparison


@spread
def ask(
    model: ModelSpec,
    picture: Annotated[Path, typer.Argument(help="A picture: PNG, JPEG, WebP, GIF, BMP or TIFF.")],
    question: Annotated[str, typer.Argument(help="What to ask about it.")],
    *,
    pruning: PrunerOptions,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The longest answer.")] = 64,
    rounds: Annotated[int, typer.Option(min=1, help="Timed answers of each, after one that warms up.")] = 3,
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
    from vispco.report.examples import as_seen  # noqa: PLC0415
    from vispco.serving.ask import PictureQuestion, compare, draw_sheet  # noqa: PLC0415

    spec = pruning.spec()
    sample = PictureQuestion.read(picture, question)
    with bar(f"{model.name}, {spec.title}"):
        loaded, processor = model.load()
        found = compare(loaded, processor, sample, spec.resolve(loaded), max_new_tokens=max_new_tokens, rounds=rounds)
    seen = as_seen(sample.images[0], processor)
    files: dict[str, str] = {}
    if found.depth is not None:
        title_line = f"{question}  unpruned: {found.unpruned.answer}  {spec.title}: {found.pruned.answer}"
        files["picture"] = str(draw_sheet(seen, found.depth, found.layers, title_line, target))
    if open_page:
        from vispco.serving.ask.page import write_page  # noqa: PLC0415

        files["page"] = str(write_page(found, seen, target.with_suffix(".html")))
    data = {"model": model.name, **spec.named(), **found.to_dict(), "files": files}
    show(data, as_json=json, table=_table(found, f"{model.name}: {question}", files))
    if open_page:
        from vispco.cli.browser import open_in_browser  # noqa: PLC0415

        open_in_browser(Path(files["page"]))


def _table(found: AnswerComparison, title: str, files: dict[str, str]) -> Any:
    from rich.markup import escape  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    from vispco.serving.ask.page import ROWS  # noqa: PLC0415

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
