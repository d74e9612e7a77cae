"""`vispco info`: what a model is made of, and what pruning it would take, before any of it is run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vispco.cli.console import fitted_table, show
from vispco.cli.options import AsJson
from vispco.core.errors import InvalidInputError
from vispco.models.model_source import read_config, read_preprocessor


def info(
    model: Annotated[
        str | None, typer.Argument(help="A shipped model, a folder, a hub id, or a config.json alone.")
    ] = None,
    *,
    methods: Annotated[
        bool, typer.Option("--methods", help="What published settings mean in tokens and FLOPs; no model is needed.")
    ] = False,
    image_size: Annotated[str, typer.Option(help="A picture's WIDTHxHEIGHT in pixels.")] = "640x480",
    visual: Annotated[int | None, typer.Option(min=1, help="Visual tokens of a sample, in place of a size.")] = None,
    text: Annotated[int, typer.Option(min=1, help="Text tokens of a prompt.")] = 64,
    answer: Annotated[int, typer.Option(min=1, help="Tokens of an answer.")] = 8,
    dtype: Annotated[str | None, typer.Option(help="Of weights and cache (default: the config's).")] = None,
    samples: Annotated[int, typer.Option(min=1, help="What a search learns from: the paper's 30,000.")] = 30_000,
    items: Annotated[int, typer.Option(min=1, help="What an evaluation asks, of all benchmarks together.")] = 8_000,
    batch_size: Annotated[int, typer.Option(min=1, help="Answers that are written side by side.")] = 16,
    tflops: Annotated[float, typer.Option(min=0.001, help="Peak of a GPU; 148: an H20 in bfloat16.")] = 148.0,
    utilisation: Annotated[float, typer.Option(min=0.001, max=1, help="Share of the peak in prefill.")] = 0.4,
    bandwidth: Annotated[float, typer.Option(min=0.001, help="Its memory, in TB/s; 4.0: an H20.")] = 4.0,
    gpus: Annotated[int, typer.Option(min=1, help="How many of them.")] = 1,
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None,
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with the config.")] = False,
    json: AsJson = False,
) -> None:
    """Layers, tokens, FLOPs and memory of a model; reads no weights.

    FLOPs by both formulas, and what an evaluation, a search and the grid would take.

    Examples:

        vispco info tiny-qwen --image-size 168x168

        vispco info Qwen2.5-VL-3B-config.json --image-size 1024x768 --tflops 312 --bandwidth 2 --gpus 8

        vispco info --methods
    """
    if methods:
        from vispco.pruner.presets import account, account_table  # noqa: PLC0415

        rows = account(text)
        columns, cells, title, caption = account_table(rows, text)
        shown = None if json else [fitted_table(columns, cells, title, left=("setting", "label")), caption]
        show({"model": "LLaVA-1.5-7B", "methods": rows}, as_json=json, table=shown)
        return
    if model is None:
        raise InvalidInputError(
            "No model was given. Give one (`vispco info tiny-qwen`), or --methods, which needs none."
        )
    size = pixels(image_size)
    config = read_config(model, revision=revision, trust_remote_code=trust_remote_code)
    from vispco.timing.estimates import DescribeSettings, Machine, describe  # noqa: PLC0415
    from vispco.timing.tables import model_rows  # noqa: PLC0415

    at = DescribeSettings(
        image=size,
        visual=visual,
        text=text,
        answer=answer,
        samples=samples,
        items=items,
        batch=batch_size,
        dtype=dtype,
        machine=Machine(tflops=tflops, utilisation=utilisation, bandwidth=bandwidth, gpus=gpus),
    )
    data = describe(config, model, at, read_preprocessor(model))
    show(data, as_json=json, table=None if json else _table(data["model"], model_rows(data)))


def pixels(text: str) -> tuple[int, int]:
    """A size as a person types it: 640x480."""
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2 or not all(part.strip().isdigit() and int(part) for part in parts):
        raise InvalidInputError(f"The image size {text!r} was given. Write WIDTHxHEIGHT, such as 640x480.")
    return int(parts[0]), int(parts[1])


def _table(title: str, sections: list[list[tuple[str, str]]]) -> Any:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, show_header=False)
    for rows in sections:
        table.add_section()
        for row in rows:
            table.add_row(*row)
    return table
