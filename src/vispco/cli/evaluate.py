"""`vispco evaluate`: accuracy and cost of a model, unpruned, under a schedule, or as a search prunes it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.choice import PruningOptions
from vispco.cli.data import TaskOptions, tell_skipped
from vispco.cli.options import spread
from vispco.cli.output import show
from vispco.cli.telling import bar, say
from vispco.core.runs.files import write_json
from vispco.core.runs.run_record import check_output, record_output
from vispco.models.model_spec import ModelSpec

if TYPE_CHECKING:
    from vispco.evaluation import Evaluation

FORMAT = "vispco-evaluation"
EPILOG = """
Examples:

    vispco evaluate tiny-qwen

    vispco evaluate tiny-qwen --scorer fastv --schedule single:2:0.5 --limit 32

    vispco evaluate tiny-qwen --method pyramiddrop --budget 0.5

    vispco evaluate ./my-model --pruner runs/qwen --budget 0.4 --tasks mmbench=MMBench_DEV_EN.tsv,chartqa=ChartQA_TEST.tsv

    vispco evaluate Qwen/Qwen2.5-VL-3B-Instruct --data-root LMUData --json
"""


@spread
def evaluate(
    model: ModelSpec,
    *,
    asked: TaskOptions,
    pruning: PruningOptions,
    split: Annotated[str, typer.Option(help="Of synthetic tasks: test, calibration or train.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many items of each task.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of drawn pictures, and of what a limit draws from a file.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1)] = 32,
    kl: Annotated[bool, typer.Option(help="Also measure the KL divergence from the unpruned model.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the result to this JSON file, too.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Write every answer to this .tsv or .json, which VLMEvalKit's evaluate reads.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Accuracy per task and FLOPs, unpruned or pruned.

    With 95 % intervals, the number of items, FLOPs by both cost models, and what could not be used.
    """
    if out is not None:
        check_output(out, FORMAT)
    from vispco.cli.config import facts  # noqa: PLC0415
    from vispco.core.schedule import Schedule  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.metrics import benchmark  # noqa: PLC0415
    from vispco.metrics.benchmark_samples import (  # noqa: PLC0415
        FIRST,
        check_predictions_path,
        prediction_files,
        write_predictions,
    )

    if predictions is not None:
        check_predictions_path(predictions)
        check_output(predictions, *FIRST)

    pruned = pruning.spec()
    spec = EvaluatorSpec(
        model=model,
        split=split,
        limit=limit,
        seed=seed,
        batch_size=batch_size,
        kl=kl,
        share=0,
        details=predictions is not None,
        **asked.spec(),
    )
    with bar(f"{model.name}, {pruned.title}") as shown:
        evaluator = spec.build(progress=shown.tell)
        for path in prediction_files(predictions, evaluator.samples).values() if predictions is not None else ():
            check_output(path, *FIRST)
        pruner = pruned.resolve(evaluator.model)
        result = evaluator(None if pruned.unpruned else pruner)
    title = f"{model.name}, {pruned.title}" if pruned.fixed else f"{model.name}, {pruner.chain}, {pruned.title}"
    skipped = {task: report.to_dict() for task, report in evaluator.skipped.items()}
    data = {
        "format": FORMAT,
        "model": model.name,
        **pruned.named(),
        "scorer": str(pruner.chain),
        "schedule": pruner.schedule.to_dict() if isinstance(pruner.schedule, Schedule) else None,
        "split": None if spec.files else split,
        "files": dict(spec.files),
        "protocol": spec.protocol if spec.files else None,
        "metrics": {name: spec.asking().metric(benchmark(name, own=True)) for name in spec.files},
        **result.to_dict(),
        "skipped": skipped,
        "provenance": facts(evaluator.model.device),
    }
    if predictions is not None:
        for path in write_predictions(predictions, evaluator.samples, result.details["predictions"]):
            record_output(path)
    if out is not None:
        write_json(out, data)
        record_output(out)
    show(data, as_json=json, table=_table(result, title))
    tell_skipped(evaluator.skipped, say)


def _table(result: Evaluation, title: str) -> Any:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, caption=_costs(result), caption_justify="left")
    for column in ("task", "accuracy", "95 % interval", "items", "skipped"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for task in result.tasks:
        interval = f"{task.low:.1%} - {task.high:.1%}"
        table.add_row(task.task, f"{task.accuracy:.1%}", interval, str(task.n), str(task.skipped))
    table.add_section()
    items, skipped = (sum(getattr(task, name) for task in result.tasks) for name in ("n", "skipped"))
    interval = f"{result.low:.1%} - {result.high:.1%}"
    table.add_row("average", f"{result.accuracy:.1%}", interval, str(items), str(skipped))
    return table


def _costs(result: Evaluation) -> str:
    lines = [
        f"{result.flops[name] / 1e9:.4g} GFLOPs a sample in the language model ({name}), {result.fraction[name]:.1%} of unpruned"
        for name in result.flops
    ]
    for name, spent in result.details.get("spending", {}).items():
        lines.append(
            f"by sample ({name}): mean {spent['mean']:.1%}, p95 {spent['p95']:.1%}, worst {spent['worst']:.1%}"
        )
    for task, figures in result.details.get("figures", {}).items():
        lines.append(f"{task}: " + ", ".join(f"{name} {value:.4g}" for name, value in figures.items()))
    if result.kl is not None:
        lines.append(f"KL to the unpruned model: {result.kl:.4g}")
    return "\n".join([*lines, f"{result.seconds:.1f} s"])


evaluate.__doc__ = f"{evaluate.__doc__}\n{EPILOG}"
