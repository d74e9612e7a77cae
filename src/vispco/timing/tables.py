"""Measurements and estimates of this machine as tables of text."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from vispco.cost import TimeProfile
from vispco.evaluation.frontier_tables import Table
from vispco.families.tower_shape import account_sentence
from vispco.timing.timing import PROMPTS, BenchRow

_CaptionedTable: TypeAlias = tuple[Sequence[str], Sequence[Sequence[str]], str]
"""Columns, rows of as many cells, and a caption."""
_WORK = {
    "evaluation": "evaluation, {items:,} items",
    "joint_search": "the default search, at most {samples:,} samples",
    "static_search": "static search, {samples:,} samples, 8 budgets, at most",
    "gradient_search": "predictor by gradient, {samples:,} samples",
    "grid": "grid of {configurations}, {items:,} items each",
}


def bench_tables(rows: Sequence[dict[str, Any]], queue: Sequence[dict[str, Any]] = ()) -> list[_CaptionedTable]:
    """Rows of a benchmark as tables: how fast, where the time goes, what memory it takes, and a queue of requests."""
    hint = "" if any(row.get("predicted_ms") is not None for row in rows) else " (run vispco profile first)"
    speed, parts, ahead, held = [], [], [], []
    for row in rows:
        name, times, gain = row["configuration"], row["ttft_ms"], row["speedup"]
        name += "" if row.get("unmet") is None else " *"
        gains = (f"{gain[part]:.2f} / {gain[f'{part}_implied']:.2f}" for part in ("ttft", "language"))
        accounts = (f"{row['flops']:.1%}", f"{row['prefill']:.1%}" if "prefill" in row else "–")
        speed.append((name, *accounts, f"{times['p50']:.1f}", f"{times['p95']:.1f}", *gains))
        seconds = (f"{milliseconds:.1f}" for milliseconds in row["parts_ms"].values())
        parts.append((name, *seconds, f"{row['decode_tokens_per_second']:.1f}"))
        predicted, least = row.get("predicted_ms"), row.get("break_even")
        ahead.append((name, "–" if predicted is None else f"{predicted:.1f}", "–" if least is None else str(least)))
        held.append((name, *(_mebibytes(row[key]) for key in ("kv_bytes", "peak_bytes", "prefill_bytes"))))
    shown: list[_CaptionedTable] = [
        (
            ("", "FLOPs", "whole", "TTFT, ms", "p95", "TTFT ×", "language ×"),
            speed,
            "\n".join(
                [
                    "FLOPs: of the language model; whole: of the whole prefill, vision tower inside",
                    *(account_sentence(row["tower_share"]) for row in rows[:1] if row.get("tower_share")),
                    "×: how much faster than unpruned, measured / as FLOPs imply",
                    *[f"* {row['configuration']}: {row['unmet']}" for row in rows if row.get("unmet") is not None],
                ]
            ),
        ),
        (("", "vision", "predictor", "scoring", "language", "tokens/s"), parts, "medians, in ms"),
        (
            ("", "predicted", "pays from"),
            ahead,
            f"predicted: predictor, scoring and language, in ms, by this device's profile{hint}\npays from: visual tokens",
        ),
        (("", "KV", "peak", "prefill"), held, "M: MiB; prefill: memory beyond what was held before"),
    ]
    if queue:
        keys = ("requests_per_second", "decode_tokens_per_second")
        served = [
            (
                row["configuration"],
                str(row["batch_size"]),
                *(f"{row[key]:.2f}" for key in keys),
                _mebibytes(row["kv_bytes"]),
            )
            for row in queue
        ]
        columns = ("", "batch", "requests/s", "tokens/s", "KV")
        shown.append((columns, served, "a mixed queue of pictures; KV: of a batch"))
    return shown


def _mebibytes(value: int | None) -> str:
    return "–" if value is None else f"{value / 2**20:.3g} M"


def profile_rows(found: TimeProfile) -> list[dict[str, Any]]:
    """For each batch: milliseconds of a layer by tokens, of a drop, of the rest, and of the vision tower by visual token."""
    return [
        {
            "batch": batch,
            "layer_ms": dict(zip(map(str, found.tokens), found.layer_ms[place], strict=True)),
            "drop_ms": found.drop_ms[place],
            "fixed_ms": found.fixed_ms[place],
            "tower_ms": found.tower_ms[place] if found.tower_ms else None,
            "margin": found.cost(batch).margin,
        }
        for place, batch in enumerate(found.batches)
    ]


def profile_table(found: TimeProfile) -> _CaptionedTable:
    """Milliseconds of a layer with few, some and many tokens, of a drop and of the rest, for each batch."""
    caption = (
        f"ms on {found.device}, {found.dtype}; columns: one layer with so many tokens; tower: of 100 visual tokens; margin: "
        "what planners leave free of a budget of time"
    )
    shown = sorted({0, len(found.tokens) // 2, len(found.tokens) - 1})
    rows = []
    for row, batch in enumerate(found.batches):
        layers = (f"{found.layer_ms[row][place]:.3g}" for place in shown)
        tower = f"{100 * found.tower_ms[row]:.3g}" if found.tower_ms else "–"
        rest = (f"{found.drop_ms[row]:.3g}", f"{found.fixed_ms[row]:.3g}", tower, f"{found.cost(batch).margin:.0%}")
        rows.append((str(batch), *layers, *rest))
    columns = ("batch", *(str(found.tokens[place]) for place in shown), "drop", "rest", "tower", "margin")
    return columns, rows, caption


def with_times(points: Table, timed: Sequence[BenchRow]) -> Table:
    """The table of a frontier, cheapest first, with the time to the first token of each row and how much faster it is."""
    columns, rows = points
    cells = [f"{row.ttft_ms['p50']:.1f} (×{row.speedup['ttft']:.2f})" for row in timed[1:]]
    if len(cells) != len(rows):
        return points
    shown = [(*row[:1], cell, *row[1:]) for row, cell in zip(rows, cells, strict=True)]
    return (*columns[:1], "first token, ms", *columns[1:]), shown


def time_line(timed: Sequence[BenchRow]) -> str:
    """What the times are about."""
    return (
        f"first token: median with its speed-up, unpruned {timed[0].ttft_ms['p50']:.1f} ms; the vision tower included; the "
        f"{PROMPTS} largest pictures, one prompt at a time"
    )


def search_bill(data: dict[str, Any]) -> str:
    """The line of the default search among what `describe` found."""
    work, machine = data["estimates"]["joint_search"], data["estimates"]["machine"]
    return (
        f"{work['flops']:.3g} FLOPs, {hours(work['hours'])} on a GPU of {machine['tflops']:g} TFLOPS at "
        f"{machine['utilisation']:.0%}, {work['bytes'] / 2**30:.3g} GiB with its weights; {data['visual_tokens']} visual tokens, "
        f"at most {work['samples']:,} samples"
    )


def model_rows(data: dict[str, Any]) -> list[list[tuple[str, str]]]:
    """What `describe` found, for people: names and texts, in sections (the model, hours of work, what is supported)."""
    gib, estimates = 2**30, data["estimates"]
    machine = estimates["machine"]
    image = "" if data["image"] is None else " (an image of {} × {})".format(*data["image"])
    rows: list[tuple[str, str]] = []
    sections = [rows]
    rows.append(("type", f"{data['model_type']} (family: {data['family']}; {data['supported']['path']})"))
    rows.append(("decoder layers", f"{data['layers']}, {data['sliding_layers']} of them with a sliding window"))
    rows.append(
        (
            "dimensions",
            f"hidden {data['hidden']}, {data['heads']} heads of {data['head_dim']} ({data['kv_heads']} for keys), FFN {data['ffn']}",
        )
    )
    rows.append(("a sample", f"{data['visual_tokens']} visual tokens{image} + {data['text_tokens']} text tokens"))
    for key, values in data["flops"].items():
        shown = ", ".join(f"{budget}: {value / 1e12:.4g}" for budget, value in values.items())
        below = [b for b in values if values[b] < data["floor"][key] * values["100%"]]
        shown += f" ({', '.join(below)}: below the floor, cannot be reached)" if below else ""
        rows.append((f"prefill TFLOPs ({key})", shown))
        rows.append((f"floor ({key})", f"{data['floor'][key]:.1%}: layer 0 sees every token, the others text alone"))
    whole = data["prefill"]
    if whole["tower"] is not None:
        shown = f"{whole['flops'] / 1e12:.4g}, {whole['tower'] / 1e12:.4g} of them ({whole['tower_share']:.1%}) vision tower"
        rows.append(("whole prefill, TFLOPs", shown))
    rows.append(("", whole["sentence"]))
    if data["not_counted"]:
        rows.append(("not counted", data["not_counted"]))
    rows.append(("parameters", f"{_count(data['parameters'])}, {_count(data['vision_parameters'])} of them vision"))
    rows.append(("weights", ", ".join(f"{d}: {b / gib:.3g} GiB" for d, b in data["weights_bytes"].items())))
    cache = ", ".join(f"{budget}: {b / 2**20:.3g} MiB" for budget, b in data["kv_bytes_at"].items())
    rows.append(("KV cache of a sample", f"{cache} (tokens leave at layer 2)"))
    sections.append(rows := [])
    rows.append(
        (
            "hours are for",
            f"{machine['gpus']} GPU of {machine['tflops']:g} TFLOPS at {machine['utilisation']:.0%}, {machine['bandwidth']:g} TB/s",
        )
    )
    for key, words in _WORK.items():
        work = estimates[key]
        what = words.format(**{**estimates, **work})
        held = f", {work['bytes'] / gib:.3g} GiB" if "bytes" in work else ""
        rows.append((what, f"{work['flops']:.3g} FLOPs, {hours(work['hours'])}{held}"))
    sections.append(rows := [])
    rows.append(("attention", ", ".join(data["supported"]["attention"])))
    rows.append(("refused", ", ".join(data["supported"]["refused"])))
    rows.append(("scorers", ", ".join(data["scorers"])))
    return sections


def _count(parameters: int) -> str:
    return f"{parameters / 1e9:.2f} G" if parameters >= 1e8 else f"{parameters / 1e6:.2f} M"


def hours(value: float) -> str:
    """Hours as a person reads them."""
    if value * 60 < 1:
        return f"{value * 3600:.2g} seconds"
    return f"{value * 60:.2g} minutes" if value < 1 else f"{value:.3g} hours"
