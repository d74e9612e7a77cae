"""`vispco info`: what a model is made of, and what pruning could save, before any of it is run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from vispco.cli.output import show
from vispco.errors import InvalidInputError

BUDGETS = (1.0, 0.5, 0.1)


def info(
    model: Annotated[str, typer.Argument(help="A shipped model, a folder, a hub id, or a config.json alone.")],
    *,
    visual: Annotated[int, typer.Option(min=1, help="Visual tokens of a sample.")] = 576,
    text: Annotated[int, typer.Option(min=1, help="Text tokens of a sample.")] = 64,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Layers, floor, full FLOPs by both formulas, KV cache, and what is supported. Reads the config, not the weights.

    Examples:

        vispco info tiny-qwen --visual 144

        vispco info Qwen2.5-VL-3B-config.json --visual 1024 --json
    """
    data = describe(read_config(model), model, visual, text)
    show(data, as_json=json, table=None if json else _table(data))


def read_config(model: str) -> Any:
    """The transformers config of a shipped model, a folder, a hub id or a file."""
    from transformers import AutoConfig  # noqa: PLC0415

    from vispco.loading import LoadError  # noqa: PLC0415
    from vispco.zoo import names, path  # noqa: PLC0415

    source: str | Path = path(model) if model in names() else model
    try:
        return AutoConfig.from_pretrained(source)
    except (OSError, ValueError, KeyError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise LoadError(
            f"No config could be read from {model}: {first.strip()} Give a shipped model ({', '.join(names())}), a "
            "folder, a hub id that this machine can reach, or a config.json."
        ) from error


def describe(config: Any, name: str, visual: int, text: int) -> dict[str, Any]:
    """Everything that the config tells, as plain data."""
    import torch  # noqa: PLC0415

    from vispco import cost  # noqa: PLC0415
    from vispco.families import FAMILIES  # noqa: PLC0415
    from vispco.scorers import SCORERS  # noqa: PLC0415

    if not hasattr(config, "vision_config"):
        raise InvalidInputError(
            f"{name} is a config of type {config.model_type!r} without a vision tower. vispco prunes visual tokens of "
            "image-text-to-text models."
        )
    models = {key: cost.get(key, config) for key in ("exact", "paper")}
    size = models["exact"].dimensions
    counts = torch.full((1, size.num_layers), visual)
    return {
        "model": name,
        "model_type": config.model_type,
        "family": FAMILIES[config.model_type].__name__ if config.model_type in FAMILIES else "generic",
        "layers": size.num_layers,
        "hidden": size.hidden,
        "heads": size.heads,
        "kv_heads": size.kv_heads,
        "head_dim": size.head_dim,
        "ffn": size.ffn,
        "sliding_layers": sum(window is not None for window in size.windows),
        "visual_tokens": visual,
        "text_tokens": text,
        "flops": {
            key: {f"{budget:.0%}": int(model.full(text, visual)) * budget for budget in BUDGETS}
            for key, model in models.items()
        },
        "floor": {key: int(m.floor(text, visual)) / int(m.full(text, visual)) for key, m in models.items()},
        "kv_bytes": int(models["exact"].kv_bytes(counts, torch.tensor([text]))[0]),
        "scorers": sorted(SCORERS),
    }


def _table(data: dict[str, Any]) -> Any:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=data["model"], show_header=False)
    table.add_row("type", f"{data['model_type']} (family: {data['family']})")
    table.add_row("decoder layers", f"{data['layers']}, {data['sliding_layers']} of them with a sliding window")
    table.add_row(
        "dimensions",
        f"hidden {data['hidden']}, {data['heads']} heads of {data['head_dim']} ({data['kv_heads']} for keys), FFN {data['ffn']}",
    )
    table.add_row("a sample", f"{data['visual_tokens']} visual + {data['text_tokens']} text tokens")
    for key, values in data["flops"].items():
        shown = ", ".join(f"{budget}: {value / 1e12:.4g}" for budget, value in values.items())
        table.add_row(f"prefill TFLOPs ({key})", shown)
        table.add_row(f"floor ({key})", f"{data['floor'][key]:.1%}: layer 0 sees every token, the others text alone")
    table.add_row("KV cache, unpruned", f"{data['kv_bytes'] / 2**20:.4g} MiB")
    table.add_row("scorers", ", ".join(data["scorers"]))
    return table
