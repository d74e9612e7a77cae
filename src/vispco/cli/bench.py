"""`vispco bench`: the paper's hardware table, for this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from vispco.cli.budgets import budgets_option
from vispco.cli.choice import ALLOCATION, COMPENSATE, check_given
from vispco.cli.data import TaskOptions
from vispco.cli.options import spread
from vispco.cli.output import show
from vispco.cli.place import beside_run
from vispco.cli.telling import bar
from vispco.core.runs.files import check_writable, write_json
from vispco.models.model_spec import ModelSpec

FASTV = "single:2:0.5"  # as its paper has it: after the second layer, half of the tokens


@spread
def bench(
    model: ModelSpec,
    *,
    pruner: Annotated[
        list[str] | None,
        typer.Option(help="The folder of a search, a saved pruner, or a schedule; may be given several times."),
    ] = None,
    schedule: Annotated[
        list[str] | None, typer.Option(help="single:2:0.5, stages:2=0.5,6=0.2, withdraw:8, or a JSON file; the same.")
    ] = None,
    scorer: Annotated[str, typer.Option(help="For schedules: {scorers}.")] = "fastv",
    method: Annotated[
        list[str] | None,
        typer.Option(
            help="A published method (pyramiddrop, sparsevlm:64), or one at a budget (pyramiddrop@0.5); the same."
        ),
    ] = None,
    allocation: Annotated[
        str | None, typer.Option(help=f"{ALLOCATION} [by the run or method]", show_default=False)
    ] = None,
    compensate: Annotated[
        float | None, typer.Option(help=f"{COMPENSATE} [by the run or method]", show_default=False)
    ] = None,
    budgets: Annotated[str, budgets_option("For folders of searches: 0.25,50%, 40ms, 0.6t, 120MB.")] = (
        "0.25,0.5,0.75"
    ),
    asked: TaskOptions,
    samples: Annotated[int, typer.Option(min=1, help="Prompts of each task.")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts at once.")] = 1,
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds, after one that warms up.")] = 5,
    new_tokens: Annotated[int, typer.Option(min=2, help="Tokens that are decoded after each prompt.")] = 16,
    throughput: Annotated[
        bool, typer.Option(help="Also measure requests per second with a mixed queue, in batches of 1, 4 and 16.")
    ] = False,
    memory: Annotated[bool, typer.Option(help="Also measure peak memory, each in a process of its own.")] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="The JSON file to write; in a run's folder, its page shows it [bench.json in the first run]"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Time to first token, tokens per second, KV cache and memory.

    Unpruned and pruned, interleaved in one run. Beside each measured speed-up stands the one that FLOPs imply.

    Examples:

        vispco bench tiny-qwen --schedule single:2:0.5 --scorer sparsevlm

        vispco bench tiny-qwen --method pyramiddrop --method v2drop@0.5

        vispco bench tiny-qwen --pruner runs/search --budgets 0.25,0.5 --out runs/search/bench.json
    """
    from vispco.cost.budget import parse_budgets  # noqa: PLC0415

    fractions = parse_budgets(budgets)
    check_given(allocation, compensate)
    out = beside_run(out, pruner or (), f"bench-{model.short_name}.json", "bench.json")
    check_writable(out)
    from vispco.cli.config import facts  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.timing import BenchSettings, read_candidates, time_candidates  # noqa: PLC0415
    from vispco.timing.memory import add_peaks  # noqa: PLC0415
    from vispco.timing.throughput import measure_throughput  # noqa: PLC0415

    named = [*(pruner or ()), *(schedule or ())]
    options = {"allocation": allocation, "compensate": compensate}
    candidates = read_candidates(named if named or method else [FASTV], scorer, method or (), fractions, **options)
    spec = EvaluatorSpec(model=model, **asked.spec(), limit=samples)
    judge = spec.build()
    settings = BenchSettings(rounds=rounds, batch_size=batch_size, new_tokens=new_tokens)
    with bar(f"{model.name}: bench") as shown:
        tell = shown.tell
        rows = time_candidates(judge.model, judge.processor, judge.samples, candidates, settings, on_progress=tell)
        if memory:
            rows = add_peaks(rows, judge, spec, candidates, batch_size, on_progress=tell)
        queue = (
            measure_throughput(judge.model, judge.processor, judge.samples, candidates, on_progress=tell)
            if throughput
            else []
        )
    data = {
        "model": model.name,
        **facts(judge.model.device),
        "prompts": len(judge.samples),
        "rows": [row.to_dict() for row in rows],
        **({"throughput": [row.to_dict() for row in queue]} if queue else {}),
    }
    write_json(out, data)
    show(
        data,
        as_json=json,
        table=None if json else bench_table(data["rows"], f"{model.name}: {out}", data.get("throughput", ())),
    )


def bench_table(rows: Sequence[dict[str, Any]], title: str, queue: Sequence[dict[str, Any]] = ()) -> Any:
    """The rows for people, as tables: how fast, where the time goes, what memory it takes, and a queue of requests."""
    from rich.console import Group  # noqa: PLC0415
    from rich.table import Table  # noqa: PLC0415

    fast = Table(
        title=title, caption="×: how much faster than unpruned, measured / as FLOPs imply", caption_justify="left"
    )
    hint = "" if any(row.get("predicted_ms") is not None for row in rows) else " (run vispco profile first)"
    where = Table(caption="medians, in ms", caption_justify="left")
    ahead = Table(
        caption=f"predicted: predictor, scoring and language, in ms, by this device's profile{hint}\n"
        "pays from: so many visual tokens",
        caption_justify="left",
    )
    held = Table(caption="M: MiB; prefill: memory beyond what was held before", caption_justify="left")
    longest = max(len(word) for row in rows for word in row["configuration"].split())
    for table, names in (
        (fast, ("FLOPs", "TTFT, ms", "p95", "TTFT ×", "language ×")),
        (where, ("vision", "predictor", "scoring", "language", "tokens/s")),
        (ahead, ("predicted", "pays from")),
        (held, ("KV", "peak", "prefill")),
    ):
        table.add_column("", min_width=longest)
        for column in names:
            table.add_column(column, justify="right", no_wrap=True)
    for row in rows:
        times, gain = row["ttft_ms"], row["speedup"]
        fast.add_row(
            row["configuration"],
            f"{row['flops']:.1%}",
            f"{times['p50']:.1f}",
            f"{times['p95']:.1f}",
            *(f"{gain[part]:.2f} / {gain[f'{part}_implied']:.2f}" for part in ("ttft", "language")),
        )
        where.add_row(
            row["configuration"],
            *(f"{milliseconds:.1f}" for milliseconds in row["parts_ms"].values()),
            f"{row['decode_tokens_per_second']:.1f}",
        )
        ahead.add_row(
            row["configuration"],
            "–" if row.get("predicted_ms") is None else f"{row['predicted_ms']:.1f}",
            "–" if row.get("break_even") is None else f"{row['break_even']}",
        )
        held.add_row(
            row["configuration"], *(mebibytes(row[key]) for key in ("kv_bytes", "peak_bytes", "prefill_bytes"))
        )
    if not queue:
        return Group(fast, where, ahead, held)
    served = Table(caption="a mixed queue of pictures; KV: of a batch", caption_justify="left")
    served.add_column("", min_width=longest)
    for column in ("batch", "requests/s", "tokens/s", "KV"):
        served.add_column(column, justify="right", no_wrap=True)
    for row in queue:
        rates = (f"{row[key]:.2f}" for key in ("requests_per_second", "decode_tokens_per_second"))
        served.add_row(row["configuration"], str(row["batch_size"]), *rates, mebibytes(row["kv_bytes"]))
    return Group(fast, where, ahead, held, served)


def mebibytes(value: int | None) -> str:
    return "–" if value is None else f"{value / 2**20:.3g} M"
