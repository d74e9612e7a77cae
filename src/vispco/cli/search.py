"""`vispco search`: from budgets to schedules; and `vispco export`, one of them as a file."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import draws_bars, fill_lines, fitted_table, is_first, say, show, table
from vispco.cli.options import AsJson, Overwrite, spread
from vispco.cli.place import output_file, run_folder, tell_next
from vispco.core.runs.files import read_json_object
from vispco.core.runs.run_record import record_output
from vispco.evaluation import task_spec
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import budget_option, one_budget
from vispco.search.preset_options import PresetOptions
from vispco.search.search_options import SearchOptions


@spread
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
        _print_bill(model, json=json)
        return
    folder = run_folder(out, model.short_name, options.title, overwrite=overwrite)
    from vispco.evaluation import Evaluation  # noqa: PLC0415
    from vispco.evaluation.frontier_tables import (  # noqa: PLC0415
        cheapest_near,
        points_table,
        search_verdict,
        tasks_table,
        verdict,
    )
    from vispco.evaluation.leaderboard import LeaderboardEntry  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415
    from vispco.report.examples import add_examples, of_each_task  # noqa: PLC0415
    from vispco.search.run_search import search as run  # noqa: PLC0415
    from vispco.timing.prediction import fraction_at_size  # noqa: PLC0415
    from vispco.timing.search_times import TIMES, time_budgets, time_line, with_times  # noqa: PLC0415

    settings.resolve(
        None, options.kernel, samples=1
    )  # a wrong name is refused before a model is loaded, here and below
    spec, named = options.spec(model), asked.spec()
    own = calibration.questions(asked, test, options.seed)
    named = named if own is None else {"files": {own[0].task: str(calibration.data)}}
    test_spec = EvaluatorSpec(model=model, limit=test, seed=options.seed if named.get("files") else 0, **named)
    questions = test_spec.samples() if own is None else own
    loaded, processor = model.load()
    samples, about = calibration.load(
        asked,
        processor,
        seed=options.seed,
        model=loaded,
        per_task=task_spec.PER_TASK_JOINT if spec.mode == "joint" else task_spec.PER_TASK,
        held_out=own,
        say=say,
    )
    row, effort = settings.resolve(loaded.config, options.kernel, len(samples))
    questions = questions.for_model(loaded, processor)
    task_spec.tell_skipped(questions.skipped, say)
    fractions = spec.budgets if spec.whole else options.fractions(fraction_at_size(loaded, processor, samples, say))
    batch = max(effort.batch_size, spec.effort.batch_size) if spec.chains else effort.batch_size
    tasks = task_spec.describe_tasks(test_spec, questions)
    about_run = facts(loaded.device)
    with folder.held():
        frontier = run(
            loaded,
            processor,
            samples,
            spec=replace(spec, budgets=fractions, preset=row, effort=replace(effort, batch_size=batch)),
            directory=folder,
            test=questions,
            facts={**about_run, "model": model.name, "data": about, "tasks": tasks},
            memory=None if memory is None else round(memory * 2**30),
            show=draws_bars(),
            say=say,
        )
        if not is_first():
            return
        task_spec.write_areas(folder, about)
        if examples:
            say(f"examples for the page: {examples}")
            add_examples(loaded, processor, of_each_task(questions, examples), folder, say)
        unpruned = Evaluation.from_dict(read_json_object(folder.path / "unpruned.json", what="unpruned evaluation"))
        LeaderboardEntry.of_search(model.name, options.title, frontier, unpruned, about_run).write(folder)
        say("time to the first token, unpruned and at each budget")
        timed = time_budgets(loaded, processor, questions, PrunerSpec.load(folder.path), frontier)
        measured = [row.to_dict() for row in timed]
        folder.write_json(TIMES, {"rows": measured, "batch_size": 1})
        folder.finish()
    columns, cells = with_times(points_table(frontier, options.cost), timed)
    shown = None if json else table(columns, cells, f"{model.name}: {folder.path}", caption=time_line(timed))
    show({**frontier.to_dict(), "out": str(folder.path), "timing": measured}, as_json=json, table=shown)
    if not json:
        show(
            {}, as_json=False, table=fitted_table(*tasks_table(frontier, unpruned), "accuracy by task, at each budget")
        )
        typer.echo(fill_lines(verdict(frontier, unpruned, options.cost), sys.stdout))
        for line in search_verdict(frontier).splitlines():
            typer.echo(fill_lines(line, sys.stdout))
        best = cheapest_near(frontier, unpruned.accuracy, options.cost)  # the budget that the verdict is about
        middle = fractions[len(fractions) // 2] if best is None else best.provenance["budget"]
        asked_for = dict(zip(fractions, spec.whole, strict=False)).get(middle, f"{middle:g}")
        tell_next(
            folder.path,
            f"vispco evaluate {model.name} --pruner {folder.path} --budget {asked_for}",
            f"vispco report {folder.path}",
        )


def _print_bill(model: ModelSpec, *, json: bool) -> None:
    """What the default search of a model takes, from its config alone: FLOPs, hours, memory."""
    from vispco.models.model_source import read_config, read_preprocessor  # noqa: PLC0415
    from vispco.timing.estimates import DescribeSettings, describe  # noqa: PLC0415
    from vispco.timing.tables import search_bill  # noqa: PLC0415

    data = describe(read_config(model.name), model.name, DescribeSettings(), read_preprocessor(model.name))
    bill = {"model": model.name, **data["estimates"]["joint_search"], "machine": data["estimates"]["machine"]}
    show(bill, as_json=json, table=f"{model.name}: {search_bill(data)}")


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
    path = (
        output_file(out, [run], f"pruner-{fraction:g}.json", "vispco-pruner")
        if out is None or out.suffix == ".json"
        else out
    )
    from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415
    from vispco.pruner.saved_pruners import check_export  # noqa: PLC0415

    if path.suffix != ".json":
        check_export(path)
    found = PrunerSpec.load(run)
    spec = found.static(fraction) if path.suffix == ".json" else found.at(fraction)
    spec.save(path)
    if path.suffix == ".json":
        record_output(path)
    show(spec.to_dict(), as_json=json, table=f"{path}: {spec.chain}, {spec.kind}, {fraction:.0%} of the FLOPs")


def _print_engine_flags(run: Path, budget: float, engine: str, out: Path | None, *, json: bool) -> None:
    """The flags of an engine on stdout; what they give up beside it."""
    from vispco.core.errors import InvalidInputError  # noqa: PLC0415
    from vispco.serving.engine_flags import engine_flags  # noqa: PLC0415

    if out is not None:
        raise InvalidInputError("--for prints flags and --out names a file for a pruner. Keep one of them.")
    found = engine_flags(run, budget, engine)
    if json:
        show(found.to_dict(), as_json=True, table=None)
        return
    say(
        f"{found.fraction:.1%} of the FLOPs; the full schedule {found.full_fraction:.1%}, for an input of a typical size"
    )
    for sentence in found.gives_up:
        say(sentence)
    typer.echo(found.flags)
