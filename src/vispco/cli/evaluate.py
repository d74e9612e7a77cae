"""`vispco evaluate`: accuracy and cost of a model, unpruned, under a schedule, or as a search prunes it."""

from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import bar, say, show, table
from vispco.cli.options import AsJson, Split
from vispco.core.runs.files import write_json
from vispco.core.runs.run_record import check_output, record_output
from vispco.evaluation.task_spec import TaskSpec, tell_skipped
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import PruningOptions

_FORMAT = "vispco-evaluation"
_COLUMNS = ("task", "accuracy", "95 % interval", "items", "skipped")


def evaluate(
    model: ModelSpec,
    *,
    asked: TaskSpec,
    pruning: PruningOptions,
    split: Split = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many items of each task.")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of drawn pictures, and of what a limit draws from a file.")] = 0,
    batch_size: Annotated[
        int | None,
        typer.Option(
            min=1, help="Prompts of a call. [32; 1 with a budget of time, which holds for a call]", show_default=False
        ),
    ] = None,
    kl: Annotated[bool, typer.Option(help="Also measure the KL divergence from the unpruned model.")] = False,
    out: Annotated[Path | None, typer.Option(help="Write the result to this JSON file, too.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(help="Write every answer to this .tsv or .json, which VLMEvalKit's evaluate reads.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Accuracy per task and FLOPs, unpruned or pruned.

    With 95 % intervals, the number of items, FLOPs by both cost models, and what could not be used.

    Examples:

        vispco evaluate tiny-qwen

        vispco evaluate tiny-qwen --scorer fastv --schedule single:2:0.5 --limit 32

        vispco evaluate tiny-qwen --method pyramiddrop --budget 0.5

        vispco evaluate ./my-model --pruner runs/qwen --budget 0.4 --tasks mmbench=DEV_EN.tsv,chartqa=TEST.tsv

        vispco evaluate Qwen/Qwen2.5-VL-3B-Instruct --data-root LMUData --json
    """
    if out is not None:
        check_output(out, _FORMAT)
    from vispco.cost.floor import raised_budgets  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.metrics import benchmark_samples as answers  # noqa: PLC0415

    if predictions is not None:
        answers.check_predictions_path(predictions)
        check_output(predictions, *answers.FIRST)
    pruned = pruning.spec()
    spec = EvaluatorSpec(
        model=model,
        split=split,
        limit=limit,
        seed=seed,
        batch_size=batch_size or pruned.usual_batch,
        kl=kl,
        share=0,
        details=predictions is not None,
        **asked.spec(),
    )
    with bar(f"{model.name}, {pruned.title}") as shown:
        evaluator = spec.build(progress=shown.tell)
        for path in answers.prediction_files(predictions, evaluator.samples).values() if predictions else ():
            check_output(path, *answers.FIRST)
        pruner = pruned.resolve(evaluator.model)
        with raised_budgets() as raised:
            result = evaluator(None if pruned.unpruned else pruner)
    title = f"{model.name}, {pruned.title}" if pruned.fixed else f"{model.name}, {pruner.chain}, {pruned.title}"
    title += f", {spec.batch_size} a call" if pruned.usual_batch == 1 else ""
    unmet = [f"* The budget is not met. {raised[0]}"] if raised else []
    data = {
        "format": _FORMAT,
        "model": model.name,
        **pruned.named(),
        **pruner.named(),
        **spec.named(),
        **result.to_dict(),
        "skipped": {task: report.to_dict() for task, report in evaluator.skipped.items()},
        "batch_size": spec.batch_size,
        "unmet": raised[0] if raised else None,
        "provenance": facts(evaluator.model.device),
    }
    if predictions is not None:
        for path in answers.write_predictions(predictions, evaluator.samples, result.details["predictions"]):
            record_output(path)
    if out is not None:
        write_json(out, data)
        record_output(out)
    *rows, average = result.rows()
    caption = "\n".join([result.cost_lines(), *unmet])
    shown = table(_COLUMNS, rows, title + (" *" if unmet else ""), caption=caption, last=average)
    show(data, as_json=json, table=shown)
    tell_skipped(evaluator.skipped, say)
