"""`vispco evaluate`: accuracy and cost of a model, unpruned or under a schedule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.output import check_writable, show, write_json

if TYPE_CHECKING:
    from vispco.evaluation import Evaluation

EPILOG = """
Examples:

    vispco evaluate tiny-qwen

    vispco evaluate tiny-qwen --scorer fastv --schedule single:2:0.5 --limit 32

    vispco evaluate ./my-model --tasks attribute,word --schedule schedule.json --json
"""


def evaluate(
    model: Annotated[str, typer.Argument(help="A shipped model, a folder, or a hub id.")],
    *,
    tasks: Annotated[str, typer.Option(help="'all', or names with commas between them.")] = "all",
    schedule: Annotated[
        str, typer.Option(help="full, single:2:0.5, stages:2=0.5,6=0.2, withdraw:8, or a JSON file.")
    ] = "full",
    scorer: Annotated[str, typer.Option(help="Which tokens stay: fastv, sparsevlm, fitprune, random.")] = "fastv",
    split: Annotated[str, typer.Option(help="test, calibration or train.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many items of each task.")] = None,
    batch_size: Annotated[int, typer.Option(min=1)] = 32,
    kl: Annotated[bool, typer.Option(help="Also measure the KL divergence from the unpruned model.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the result to this JSON file, too.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Accuracy per task with a 95 % interval, and FLOPs by both cost models."""
    if out is not None:
        check_writable(out)
    from rich.progress import Progress  # noqa: PLC0415

    from vispco.cli.choice import schedule_from  # noqa: PLC0415
    from vispco.data import dataset  # noqa: PLC0415
    from vispco.evaluation.evaluator import TaskEvaluator  # noqa: PLC0415
    from vispco.families import family_of  # noqa: PLC0415
    from vispco.loading import load  # noqa: PLC0415

    names = tasks if tasks == "all" else [name.strip() for name in tasks.split(",") if name.strip()]
    samples = dataset(split, tasks=names, limit=limit)
    loaded, processor = load(model)
    plan = schedule_from(schedule, len(family_of(loaded).layers(loaded)))
    with Progress(transient=True, disable=json) as bar:
        line = bar.add_task(f"{model}, {schedule}", total=len(samples))
        evaluator = TaskEvaluator(
            loaded,
            processor,
            samples,
            scorer,
            batch_size=batch_size,
            kl=kl,
            progress=lambda done, total: bar.update(line, completed=done, total=total),
        )
        result = evaluator(None if schedule == "full" else plan)
    data = {"model": model, "scorer": scorer, "schedule": plan.to_dict(), "split": split, **result.to_dict()}
    if out is not None:
        write_json(out, data)
    show(data, as_json=json, table=_table(result, f"{model}, {scorer}, {schedule}"))


def _table(result: Evaluation, title: str) -> Any:
    from rich.table import Table  # noqa: PLC0415

    table = Table(title=title, caption=_costs(result), caption_justify="left")
    for column in ("task", "accuracy", "95 % interval", "items"):
        table.add_column(column, justify="left" if column == "task" else "right")
    for task in result.tasks:
        table.add_row(task.task, f"{task.accuracy:.1%}", f"{task.low:.1%} - {task.high:.1%}", str(task.n))
    table.add_section()
    items = sum(task.n for task in result.tasks)
    table.add_row("average", f"{result.accuracy:.1%}", f"{result.low:.1%} - {result.high:.1%}", str(items))
    return table


def _costs(result: Evaluation) -> str:
    lines = [
        f"{result.flops[name] / 1e9:.4g} GFLOPs a sample in the language model ({name}), {result.fraction[name]:.1%} of unpruned"
        for name in result.flops
    ]
    if result.kl is not None:
        lines.append(f"KL to the unpruned model: {result.kl:.4g}")
    return "\n".join([*lines, f"{result.seconds:.1f} s"])


evaluate.__doc__ = f"{evaluate.__doc__}\n{EPILOG}"
