"""`vispco ask`: a question about one's own picture, answered with all visual tokens and with fewer."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.console import bar, open_in_browser, say, show, table
from vispco.cli.options import AsJson
from vispco.core.runs.files import check_writable
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import PrunerOptions

_NO_GRID = "The token grid of this model is not known, so survivors are not drawn."


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
    json: AsJson = False,
) -> None:
    """Ask about your own picture: unpruned and pruned, side by side.

    With tokens, FLOPs and milliseconds of both, and a picture of which tokens survive at which layer.

    Examples:

        vispco ask tiny-qwen photo.jpg "how many circles are there?"

        vispco ask tiny-qwen photo.jpg "how many circles are there?" --method sparsevlm --budget 0.3 --open

        vispco ask Qwen/Qwen2.5-VL-3B-Instruct photo.jpg "What does the sign say?" --pruner runs/qwen --budget 0.4
    """
    target = out if out is not None else Path(f"{picture.stem}-survivors.png")
    check_writable(target, ".png")
    from vispco.serving.ask import PictureQuestion, compare, rows, write_survivors  # noqa: PLC0415
    from vispco.serving.ask.picture_question import outside_tasks  # noqa: PLC0415

    spec, sample = pruning.spec(model.name, say), PictureQuestion.read(picture, question)
    if (outside := outside_tasks(model.name, question)) is not None:
        say(outside)
    with bar(f"{model.name}, {spec.title}"):
        loaded, processor = model.load()
        found = compare(loaded, processor, sample, spec.resolve(loaded), max_new_tokens=max_new_tokens, rounds=rounds)
    files = write_survivors(found, sample, processor, spec.title, target, page=open_page)
    lines = [f"{name}: {path}" for name, path in files.items()] + ([_NO_GRID] if found.depth is None else [])
    columns, title = ("", "unpruned", spec.title), f"{model.name}: {question}"
    shown = table(columns, rows(found), title, caption="\n".join(lines), left=columns)
    show({"model": model.name, **spec.named(), **asdict(found), "files": files}, as_json=json, table=shown)
    if open_page:
        open_in_browser(Path(files["page"]))
