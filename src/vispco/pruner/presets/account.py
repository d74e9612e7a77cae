"""Tokens and FLOPs of every published setting by one account, on the model that most papers report."""

from collections.abc import Sequence
from typing import Any

from vispco.cost import Dimensions, Exact
from vispco.pruner.presets.preset import PRESETS, mean_tokens
from vispco.pruner.presets.setting import NUM_LAYERS, NUM_VISUAL
from vispco.scorers.cost import workload_under

LLAVA_7B = Dimensions(
    num_layers=NUM_LAYERS,
    hidden=4096,
    heads=32,
    kv_heads=32,
    head_dim=128,
    ffn=11008,
    gated=True,
    windows=(None,) * NUM_LAYERS,
    vocab=32064,
    dtype_bytes=2,
)
"""LLaVA-1.5-7B's language model."""


def account(num_text: int = 64) -> list[dict[str, Any]]:
    """One row a setting: visual tokens of a mean layer by its input and by its output, and FLOPs of a prefill.

    num_text: text tokens of the prompt. Methods that decide by themselves how many stay have no numbers: None.
    """
    rows, cost = [], Exact(LLAVA_7B)
    for preset, setting in ((PRESETS.get(name), setting) for name in PRESETS for setting in PRESETS.get(name).settings):
        chain = preset.chain_for(NUM_LAYERS, setting)
        row: dict[str, Any] = {
            "method": preset.name,
            "setting": setting,
            "label": preset.setting(setting).label,
            "after": preset.after,
            "chain": str(chain),
            **dict.fromkeys(("mean_inputs", "mean_outputs", "flops", "fraction")),
        }
        if not chain.decides_count:
            counts = preset.schedule(NUM_LAYERS, NUM_VISUAL, setting).counts([NUM_VISUAL])[0]
            size = workload_under(chain, LLAVA_7B, num_text, NUM_VISUAL)
            row |= {
                "mean_inputs": float(mean_tokens(counts, "inputs")),
                "mean_outputs": float(mean_tokens(counts, "outputs")),
                "flops": int(cost.bill(counts, size)),
                "fraction": float(cost.fraction_of_counts(counts, size)),
            }
        rows.append(row)
    return rows


def account_table(rows: list[dict[str, Any]], num_text: int) -> tuple[Sequence[str], Sequence[Sequence[str]], str, str]:
    """The rows of `account` for people: columns, cells, title and caption."""
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
    caption = (
        "visual tokens of a mean layer; FLOPs of a prefill of the language model (exact, "
        f"{num_text} text tokens), and their share of the unpruned ones.\nlabel: what the number in a setting's name counts. "
        "varies: tokens differ by sample. *: after the method, see its docstring"
    )
    return columns, cells, title, caption
