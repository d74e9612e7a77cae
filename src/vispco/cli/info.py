"""`vispco info`: what a model is made of, and what pruning it would take, before any of it is run."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from vispco.cli.output import fitted_table, show
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
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Layers, tokens, FLOPs and memory of a model; reads no weights.

    FLOPs by both formulas, and what an evaluation, a search and the grid would take.

    Examples:

        vispco info tiny-qwen --image-size 168x168

        vispco info Qwen2.5-VL-3B-config.json --image-size 1024x768 --tflops 312 --bandwidth 2 --gpus 8

        vispco info --methods
    """
    if methods:
        from vispco.pruner.presets import account  # noqa: PLC0415

        rows = account(text)
        show({"model": "LLaVA-1.5-7B", "methods": rows}, as_json=json, table=None if json else _methods(rows, text))
        return
    if model is None:
        raise InvalidInputError(
            "No model was given. Give one (`vispco info tiny-qwen`), or --methods, which needs none."
        )
    size = pixels(image_size)
    config = read_config(model, revision=revision, trust_remote_code=trust_remote_code)
    from vispco.timing.estimates import DescribeSettings, Machine, describe  # noqa: PLC0415

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
    show(data, as_json=json, table=None if json else _table(data))


def pixels(text: str) -> tuple[int, int]:
    """A size as a person types it: 640x480."""
    parts = text.lower().replace("×", "x").split("x")
    if len(parts) != 2 or not all(part.strip().isdigit() and int(part) for part in parts):
        raise InvalidInputError(f"The image size {text!r} was given. Write WIDTHxHEIGHT, such as 640x480.")
    return int(parts[0]), int(parts[1])


def _table(data: dict[str, Any]) -> Any:
    from rich.table import Table  # noqa: PLC0415

    gib, estimates = 2**30, data["estimates"]
    machine = estimates["machine"]
    image = "" if data["image"] is None else " (an image of {} × {})".format(*data["image"])
    table = Table(title=data["model"], show_header=False)
    table.add_row("type", f"{data['model_type']} (family: {data['family']}; {data['supported']['path']})")
    table.add_row("decoder layers", f"{data['layers']}, {data['sliding_layers']} of them with a sliding window")
    table.add_row(
        "dimensions",
        f"hidden {data['hidden']}, {data['heads']} heads of {data['head_dim']} ({data['kv_heads']} for keys), FFN {data['ffn']}",
    )
    table.add_row("a sample", f"{data['visual_tokens']} visual tokens{image} + {data['text_tokens']} text tokens")
    for key, values in data["flops"].items():
        shown = ", ".join(f"{budget}: {value / 1e12:.4g}" for budget, value in values.items())
        below = [b for b in values if values[b] < data["floor"][key] * values["100%"]]
        shown += f" ({', '.join(below)}: below the floor, cannot be reached)" if below else ""
        table.add_row(f"prefill TFLOPs ({key})", shown)
        table.add_row(f"floor ({key})", f"{data['floor'][key]:.1%}: layer 0 sees every token, the others text alone")
    if data["not_counted"]:
        table.add_row("not counted", data["not_counted"])
    table.add_row("parameters", f"{_count(data['parameters'])}, {_count(data['vision_parameters'])} of them vision")
    table.add_row("weights", ", ".join(f"{d}: {b / gib:.3g} GiB" for d, b in data["weights_bytes"].items()))
    cache = ", ".join(f"{budget}: {b / 2**20:.3g} MiB" for budget, b in data["kv_bytes_at"].items())
    table.add_row("KV cache of a sample", f"{cache} (tokens leave at layer 2)")
    table.add_section()
    table.add_row(
        "hours are for",
        f"{machine['gpus']} GPU of {machine['tflops']:g} TFLOPS at {machine['utilisation']:.0%}, {machine['bandwidth']:g} TB/s",
    )
    for key, words in WORK.items():
        work = estimates[key]
        what = words.format(**{**estimates, **work})
        table.add_row(what, f"{work['flops']:.3g} FLOPs, {hours(work['hours'])}")
    table.add_section()
    table.add_row("attention", ", ".join(data["supported"]["attention"]))
    table.add_row("refused", ", ".join(data["supported"]["refused"]))
    table.add_row("scorers", ", ".join(data["scorers"]))
    return table


def _methods(rows: list[dict[str, Any]], text: int) -> Any:
    from rich.console import Group  # noqa: PLC0415

    cells = [
        (
            row["method"] + ("*" if row["after"] else ""),
            row["setting"],
            row["label"] or "",
            *(
                (f"{row['mean_inputs']:.1f}", f"{row['mean_outputs']:.1f}", f"{row['flops'] / 1e12:.2f}")
                if row["flops"] is not None
                else ("varies", "", "")
            ),
            "" if row["flops"] is None else f"{row['fraction']:.1%}",
        )
        for row in rows
    ]
    columns = ("method", "setting", "label", "inputs", "outputs", "TFLOPs", "FLOPs")
    title = "published settings on LLaVA-1.5-7B: 576 visual tokens, 32 layers"
    return Group(
        fitted_table(columns, cells, title, left=("setting", "label")),
        "visual tokens of a mean layer; FLOPs of a prefill of the language model (exact, "
        f"{text} text tokens), and their share of the unpruned ones.\nlabel: what the number in a setting's name counts. "
        "varies: tokens differ by sample. *: after the method, see its docstring",
    )


WORK = {
    "evaluation": "evaluation, {items:,} items",
    "static_search": "static search, {samples:,} samples, 8 budgets, at most",
    "gradient_search": "predictor by gradient, {samples:,} samples",
    "grid": "grid of {configurations}, {items:,} items each",
}


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.2f} G" if parameters >= 1e8 else f"{parameters / 1e6:.2f} M"


def hours(value: float) -> str:
    """Hours as a person reads them."""
    if value * 60 < 1:
        return f"{value * 3600:.2g} seconds"
    return f"{value * 60:.2g} minutes" if value < 1 else f"{value:.3g} hours"
