"""`vispco bench`: the paper's hardware table, for this machine."""

from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import bar, show, table
from vispco.cli.options import AsJson, Rounds
from vispco.cli.place import RUNS
from vispco.core.runs.files import check_writable, write_json
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.timing.candidate_options import CandidateOptions


def bench(
    model: ModelSpec,
    *,
    options: CandidateOptions,
    asked: TaskSpec,
    samples: Annotated[int, typer.Option(min=1, help="Prompts of each task.")] = 1,
    batch_size: Annotated[int, typer.Option(min=1, help="Prompts at once.")] = 1,
    rounds: Rounds = 5,
    new_tokens: Annotated[int, typer.Option(min=2, help="Tokens that are decoded after each prompt.")] = 16,
    throughput: Annotated[
        bool, typer.Option(help="Also measure requests per second with a mixed queue, in batches of 1, 4 and 16.")
    ] = False,
    memory: Annotated[bool, typer.Option(help="Also measure peak memory, each in a process of its own.")] = True,
    out: Annotated[
        Path | None,
        typer.Option(help="The JSON file to write; in a run's folder, its page shows it [bench.json in the first run]"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Time to first token, tokens per second, KV cache and memory.

    Unpruned and pruned, interleaved in one run. Beside each measured speed-up stands the one that FLOPs imply.

    Examples:

        vispco bench tiny-qwen --schedule single:2:0.5 --scorer sparsevlm

        vispco bench tiny-qwen --method pyramiddrop --method v2drop@0.5

        vispco bench tiny-qwen --pruner runs/search --budgets 0.25,0.5 --out runs/search/bench.json
    """
    runs = [Path(run) / "bench.json" for run in options.pruner or () if Path(run).is_dir()]
    out = out or next(iter(runs), RUNS / f"bench-{model.short_name}.json")
    check_writable(out)
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.timing import BenchSettings, time_candidates  # noqa: PLC0415
    from vispco.timing.memory import add_peaks  # noqa: PLC0415
    from vispco.timing.tables import bench_tables  # noqa: PLC0415
    from vispco.timing.throughput import measure_throughput  # noqa: PLC0415

    candidates = options.candidates()
    spec = EvaluatorSpec(model=model, **asked.spec(), limit=samples)
    judge = spec.build()
    settings = BenchSettings(rounds=rounds, batch_size=batch_size, new_tokens=new_tokens)
    with bar(f"{model.name}: bench") as progress:
        tell, timed = progress.tell, (judge.model, judge.processor, judge.samples, candidates)
        rows = time_candidates(*timed, settings, on_progress=tell)
        if memory:
            rows = add_peaks(rows, judge, spec, candidates, batch_size, on_progress=tell)
        queue = measure_throughput(*timed, on_progress=tell) if throughput else []
    data = {
        "model": model.name,
        **facts(judge.model.device),
        "prompts": len(judge.samples),
        "rows": [row.to_dict() for row in rows],
        **({"throughput": [row.to_dict() for row in queue]} if queue else {}),
    }
    write_json(out, data)
    tables = [] if json else bench_tables(data["rows"], data.get("throughput", ()))
    titles = [f"{model.name}: {out}", *[""] * len(tables)]
    shown = [table(columns, cells, titles[n], caption=text) for n, (columns, cells, text) in enumerate(tables)]
    show(data, as_json=json, table=shown)
