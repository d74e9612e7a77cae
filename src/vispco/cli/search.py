"""`vispco search`: from budgets to schedules; and `vispco export`, one of them as a file."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import draws_bars, fill_lines, fitted_table, say, show, table
from vispco.cli.options import AsJson, Overwrite
from vispco.cli.place import output_file, run_folder, tell_next
from vispco.core.errors import InvalidInputError
from vispco.core.runs.run_record import record_output
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec, read_config, read_preprocessor
from vispco.pruner.pruning_options import budget_option, one_budget
from vispco.search.search_options import PresetOptions, SearchOptions
from vispco.timing.describe_settings import DescribeSettings

if TYPE_CHECKING:
    from vispco.report.search_job import SearchedRun, SearchJob


def search(
    model: ModelSpec,
    *,
    out: Annotated[Path | None, typer.Option(help="The run's folder [runs/MODEL-SCORER-NUMBER]")] = None,
    overwrite: Overwrite = False,
    options: SearchOptions,
    calibration: CalibrationSpec,
    asked: TaskSpec,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task, for the frontier's accuracies.")] = 32,
    settings: PresetOptions,
    examples: Annotated[int, typer.Option(min=0, help="Pictures with surviving tokens for the page.")] = 6,
    memory: Annotated[
        float | None,
        typer.Option(min=0.1, help="GiB for batches and what is kept of the unpruned model [half of what is free]"),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what the default search would take, and search nothing.")
    ] = False,
    json: AsJson = False,
) -> None:
    """Find the schedule on the Pareto frontier for each budget.

    All of it is kept in the folder of a run, and the same command continues an interrupted search. leaderboard.json there
    is for the results folder of the repository.

    Examples:

        vispco search tiny-qwen --out runs/qwen

        vispco search tiny-qwen --scorers fastv,divprune+fastv --budgets 0.2,0.4

        vispco search tiny-qwen --budgets 0.5p,0.4p,0.3p

        vispco search tiny-qwen --mode static --solver lagrangian --kernel single --budgets 0.3,0.5

        vispco search tiny-qwen --method v2drop --mode static --budgets 0.3,0.5

        vispco search ./my-model --data llava_instruct_150k.json --images train2017 --data-root LMUData --set rate=5e-5
    """
    if dry_run:
        from vispco.timing.estimates import describe  # noqa: PLC0415
        from vispco.timing.tables import search_bill  # noqa: PLC0415

        data = describe(read_config(model.name), model.name, DescribeSettings(), read_preprocessor(model.name))
        bill = {"model": model.name, **data["estimates"]["joint_search"], "machine": data["estimates"]["machine"]}
        show(bill, as_json=json, table=f"{model.name}: {search_bill(data)}")
        return
    folder = run_folder(out, model.short_name, options.title, overwrite=overwrite)
    from vispco.report.search_job import SearchJob  # noqa: PLC0415

    job = SearchJob(
        model=model,
        options=options,
        calibration=calibration,
        tasks=asked,
        settings=settings,
        test=test,
        examples=examples,
        memory=memory,
    )
    found = job.run(folder, facts, show=draws_bars(), say=say)
    if found is not None:
        print_search(job, found, folder.path, json=json)


def print_search(job: SearchJob, found: SearchedRun, folder: Path, *, json: bool = False) -> None:
    """The points of the frontier, their accuracy by task, a verdict, and what to type next."""
    from vispco.evaluation import frontier_tables as tables  # noqa: PLC0415
    from vispco.timing.tables import time_line, with_times  # noqa: PLC0415

    frontier, unpruned, name, cost = found.frontier, found.unpruned, job.model.name, job.options.cost
    if json:
        times = [row.to_dict() for row in found.times]
        show({**frontier.to_dict(), "out": str(folder), "timing": times}, as_json=True, table=None)
        return
    columns, cells = with_times(tables.points_table(frontier, cost), found.times)
    points = table(columns, cells, f"{name}: {folder}", caption=time_line(found.times))
    tasks = fitted_table(*tables.tasks_table(frontier, unpruned), "accuracy by task, at each budget")
    show({}, as_json=False, table=[points, tasks])
    for line in (tables.verdict(frontier, unpruned, cost), *tables.search_verdict(frontier).splitlines()):
        typer.echo(fill_lines(line, sys.stdout))
    best = tables.cheapest_near(frontier, unpruned.accuracy, cost)  # the budget that the verdict is about
    budgets = list(found.budgets)
    chosen = budgets[len(budgets) // 2] if best is None else best.provenance["budget"]
    budget = found.budgets.get(chosen, f"{chosen:g}")
    evaluate = f"vispco evaluate {name} --pruner {folder} --budget {budget}"
    tell_next(folder, evaluate, f"vispco report {folder}")


def export(
    run: Annotated[Path, typer.Argument(help="The directory of a search.")],
    *,
    budget: Annotated[str, budget_option()] = "0.5",
    out: Annotated[
        Path | None,
        typer.Option(
            help="A JSON file for one static schedule, or a folder for all that was found [RUN/pruner-BUDGET.json]"
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--for", help="Print the flags of an engine instead: vllm, openvino, or pixels (a cap).", metavar="ENGINE"
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """What a search found for a budget, as a pruner or as flags.

    Every --pruner reads it. A JSON file holds the static schedule for samples of a typical size. A folder holds the
    predictor, or the shapes of all budgets, and works at other budgets, too. --for writes nothing: it prints the flags
    that come nearest in an engine that cannot run the whole schedule, and what they give up.

    Examples:

        vispco export runs/qwen --budget 0.4 --out pruner.json

        vispco export runs/qwen --budget 0.4 --for vllm

        vispco export runs/qwen --budget 0.4 --out qwen-pruner
    """
    fraction = one_budget(budget)
    if target is not None:
        _print_engine_flags(run, fraction, target, out, json=json)
        return
    alone = out is None or out.suffix == ".json"  # one static schedule, not all that was found
    path = output_file(out, [run], f"pruner-{fraction:g}.json", "vispco-pruner") if out is None or alone else out
    from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415
    from vispco.pruner.saved_pruners import check_export  # noqa: PLC0415

    if not alone:
        check_export(path)
    found = PrunerSpec.load(run)
    spec = found.static(fraction) if alone else found.at(fraction)
    spec.save(path)
    if alone:
        record_output(path)
    show(spec.to_dict(), as_json=json, table=f"{path}: {spec.chain}, {spec.kind}, {fraction:.0%} of the FLOPs")


def _print_engine_flags(run: Path, budget: float, engine: str, out: Path | None, *, json: bool) -> None:
    """The flags of an engine on stdout; what they give up beside it."""
    from vispco.serving.engine_flags import engine_flags  # noqa: PLC0415

    if out is not None:
        raise InvalidInputError("--for prints flags and --out names a file for a pruner. Keep one of them.")
    found = engine_flags(run, budget, engine)
    if json:
        show(asdict(found), as_json=True, table=None)
        return
    say(
        f"{found.fraction:.1%} of the FLOPs; the full schedule {found.full_fraction:.1%}, for an input of a typical size"
    )
    for sentence in found.gives_up:
        say(sentence)
    typer.echo(found.flags)
