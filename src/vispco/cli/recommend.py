"""`vispco recommend`: from a target in time, bytes, FLOPs or accuracy to one configuration, and how to deploy it."""

import sys
from contextlib import redirect_stdout
from dataclasses import fields
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any

import typer

from vispco.cli.console import say, show
from vispco.cli.options import AsJson, Seed, spread
from vispco.cli.search import search
from vispco.core.runs.files import check_writable, write_json
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import budget_option

NAME = "recommendation.json"


@spread
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

    What it loses with a paired interval, what it saves as measured here, where it may fail, and the lines for transformers,
    vispco serve and vLLM. Searches only what is missing; the same command continues, and its page is the report.

    Examples:

        vispco recommend tiny-qwen --budget 0.5t

        vispco recommend tiny-qwen --loss 1 --data mine.jsonl
    """
    from vispco.core.errors import InvalidInputError  # noqa: PLC0415
    from vispco.cost import Budget  # noqa: PLC0415
    from vispco.evaluation.frontier import Frontier  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.pruner.measured_planner import check_profile  # noqa: PLC0415
    from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415
    from vispco.report import write  # noqa: PLC0415
    from vispco.report.recommendation import recommend as decide  # noqa: PLC0415

    if (budget is None) == (loss is None):
        raise InvalidInputError(
            "Give one target: --budget 0.5t (or 0.5, 40ms, 120MB), or --loss 1 (points of accuracy)."
        )
    folder = Path("runs") / f"{model.short_name}-recommend" if out is None else out
    check_writable(folder / NAME)
    timed = budget is not None and Budget.of(budget).is_time
    if timed:
        check_profile(model.load()[0])  # told before minutes of searching
    given = {"out": folder, "test": test, "seed": seed, "model": model.name, **_flat(model, calibration, asked)}
    with redirect_stdout(sys.stderr):
        search(**{**_defaults(search), **given})  # a finished one is not repeated
    own = calibration.questions(asked, test, seed)
    found = own if own is not None else EvaluatorSpec(model=model, limit=test, **asked.spec()).samples()
    loaded, processor = model.load()
    samples = found.for_model(loaded, processor)
    budgets = [float(point.provenance["budget"]) for point in Frontier.load(folder / "frontier.json").points]
    told = decide(
        loaded, processor, samples, PrunerSpec.load(folder), budget=budget, loss=loss, searched=budgets, say=say
    )
    write_json(folder / NAME, {"format": "vispco-recommendation", "model": model.name, **told.to_dict()})
    page = write([folder], folder / "report.html")
    lines = [*told.lines(model.name, str(folder)), f"The page: {page}"]
    show(
        {"model": model.name, "run": str(folder), **told.to_dict(), "report": str(page)},
        as_json=json,
        table="\n".join(lines),
    )


def _defaults(command: Any) -> dict[str, Any]:
    """What a command gets where a user types nothing."""
    return {
        each.name: each.default
        for each in signature(command).parameters.values()
        if each.default is not Parameter.empty
    }


def _flat(*groups: Any) -> dict[str, Any]:
    """The options of dataclasses, as a command takes them."""
    return {each.name: getattr(group, each.name) for group in groups for each in fields(group) if each.name != "name"}
