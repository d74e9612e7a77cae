"""`vispco recommend`: from a target in time, bytes, FLOPs or accuracy to one configuration, and how to deploy it."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import draws_bars, say, show
from vispco.cli.options import AsJson, Seed
from vispco.cli.place import run_folder
from vispco.cli.search import print_search
from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import check_writable, write_json
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import budget_option
from vispco.search.search_options import SearchOptions

_NAME = "recommendation.json"


def recommend(
    model: ModelSpec,
    *,
    budget: Annotated[
        str | None,
        budget_option(
            "The target: a fraction of the FLOPs (0.5), of the time (0.5t), milliseconds (40ms) or KV bytes (120MB)."
        ),
    ] = None,
    loss: Annotated[
        float | None, typer.Option(min=0, help="The target instead: points of accuracy that may be lost.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="The folder of the search [runs/MODEL-recommend]")] = None,
    calibration: CalibrationSpec,
    asked: TaskSpec,
    test: Annotated[int, typer.Option(min=1, help="Items of each task on which the loss is measured.")] = 32,
    seed: Seed = 0,
    json: AsJson = False,
) -> None:
    """One configuration for a target, and how to deploy it.

    What it loses with a paired interval, what it saves as measured here, where it may fail, and the lines for
    transformers, vispco serve and vLLM. Searches only what is missing; the same command continues, and its page is the
    report.

    Examples:

        vispco recommend tiny-qwen --budget 0.5t

        vispco recommend tiny-qwen --loss 1 --data mine.jsonl
    """
    from vispco.cost import Budget  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.pruner.measured_planner import check_profile  # noqa: PLC0415
    from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415
    from vispco.report import write  # noqa: PLC0415
    from vispco.report.recommendation import recommend as decide  # noqa: PLC0415
    from vispco.report.search_job import SearchJob  # noqa: PLC0415

    if (budget is None) == (loss is None):
        raise InvalidInputError(
            "Give one target: --budget 0.5t (or 0.5, 40ms, 120MB), or --loss 1 (points of accuracy)."
        )
    folder = Path("runs") / f"{model.short_name}-recommend" if out is None else out
    check_writable(folder / _NAME)
    if budget is not None and Budget.of(budget).is_time:
        check_profile(model.load()[0])  # refused before minutes of searching
    job = SearchJob(model=model, options=SearchOptions(seed=seed), calibration=calibration, tasks=asked, test=test)
    searched = job.run(run_folder(folder), facts, show=draws_bars(), say=say)  # a finished one is not repeated
    if searched is None:
        return
    with redirect_stdout(sys.stderr):
        print_search(job, searched, folder)
    own = calibration.questions(asked, test, seed)
    tested = own if own is not None else EvaluatorSpec(model=model, limit=test, **asked.spec()).samples()
    loaded, processor = model.load()
    samples = tested.for_model(loaded, processor)
    budgets = [float(point.provenance["budget"]) for point in searched.frontier.points]
    told = decide(
        loaded, processor, samples, PrunerSpec.load(folder), budget=budget, loss=loss, searched=budgets, say=say
    )
    found = asdict(told)
    write_json(folder / _NAME, {"format": "vispco-recommendation", "model": model.name, **found})
    page = write([folder], folder / "report.html")
    lines = [*told.lines(model.name, str(folder)), f"The page: {page}"]
    data = {"model": model.name, "run": str(folder), **found, "report": str(page)}
    show(data, as_json=json, table="\n".join(lines))
