"""`vispco search`: from budgets to schedules; and `vispco export`, one of them as a file."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.budgets import (
    FRACTIONS,
    budget_option,
    budgets_of,
    budgets_option,
    has_other_units,
    not_yet,
    one_budget,
)
from vispco.cli.choice import ALLOCATION, COST, ONE_CHAIN, check_given, method_chain
from vispco.cli.completion import complete_models, complete_scorers
from vispco.cli.data import (
    PER_TASK,
    PER_TASK_JOINT,
    TaskOptions,
    TrainingOptions,
    describe_tasks,
    tell_skipped,
    write_areas,
)
from vispco.cli.options import MODEL, ModelOptions, spread
from vispco.cli.output import fitted_table, show
from vispco.cli.place import OVERWRITE, check_export, output_file, run_folder, short_name, tell_next
from vispco.cli.preset import PresetOptions
from vispco.cli.telling import draws_bars, fill_lines, is_first, say
from vispco.core.runs.run_record import record_output

if TYPE_CHECKING:
    from vispco.evaluation import Evaluation
    from vispco.evaluation.frontier import Frontier


@spread
def search(
    model: Annotated[str, typer.Argument(help=MODEL, autocompletion=complete_models)],
    *,
    out: Annotated[Path | None, typer.Option(help="The run's folder [runs/MODEL-SCORER-NUMBER]")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help=OVERWRITE)] = False,
    scorer: Annotated[str | None, typer.Option(help=ONE_CHAIN, autocompletion=complete_scorers)] = None,
    scorers: Annotated[
        str | None, typer.Option(help="The chains of a joint search: fastv,divprune+fastv (default: all candidates).")
    ] = None,
    servable: Annotated[
        bool, typer.Option("--servable", help="Only what prunes once, before layer 0, as serving engines can.")
    ] = False,
    method: Annotated[str | None, typer.Option(help="The scorers of a published method, in place of --scorer.")] = None,
    allocation: Annotated[str | None, typer.Option(help=f"{ALLOCATION} [score]", show_default=False)] = None,
    kernel: Annotated[str, typer.Option(help="The family of curves that is searched: {kernels}.")] = "steps",
    mode: Annotated[
        str | None,
        typer.Option(help="joint, predictor (a schedule for each input), static or line (default: by --scorer)."),
    ] = None,
    solver: Annotated[
        str | None, typer.Option(help="lagrangian, projection, halving or table (default: what measured best).")
    ] = None,
    budgets: Annotated[
        str, budgets_option(f"{FRACTIONS} Or 0.6t, 40ms, 120MB; see vispco profile.")
    ] = "0.2,0.3,0.4,0.5,0.6,0.7,0.8,0.9",
    cost: Annotated[str, typer.Option(help=COST)] = "exact",
    learned: TrainingOptions,
    asked: TaskOptions,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task, for the frontier's accuracies.")] = 32,
    settings: PresetOptions,
    examples: Annotated[int, typer.Option(min=0, help="Pictures with surviving tokens for the page.")] = 6,
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0,
    loading: ModelOptions,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Find the schedule on the Pareto frontier for each budget.

    All of it is kept in the folder of a run, and the same command continues an interrupted search.

    Examples:

        vispco search tiny-qwen --out runs/qwen

        vispco search tiny-qwen --scorers fastv,divprune+fastv --budgets 0.2,0.4

        vispco search tiny-qwen --mode static --solver lagrangian --kernel single --budgets 0.3,0.5

        vispco search tiny-qwen --method v2drop --mode static --budgets 0.3,0.5

        vispco search ./my-model --data llava_instruct_150k.json --images train2017 --data-root LMUData --set rate=5e-5
    """
    fractions = budgets_of(budgets, not_yet)
    check_given(allocation)
    joint = "servable" if servable else "joint" if mode in (None, "joint") else "fastv"
    folder = run_folder(out, short_name(model), scorer or method or joint, overwrite=overwrite)
    from dataclasses import replace  # noqa: PLC0415

    from vispco.cli.config import facts  # noqa: PLC0415
    from vispco.evaluation.frontier.verdict import verdict  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.report.examples import add_examples, of_each_task  # noqa: PLC0415
    from vispco.search.joint.space import read_chains  # noqa: PLC0415
    from vispco.search.run_search import search as run  # noqa: PLC0415
    from vispco.search.search_spec import SearchSpec  # noqa: PLC0415

    learned.check()
    settings.resolve(None, kernel, samples=1)  # a wrong name is refused before a model is loaded, here and below
    if method is not None:
        scorer = method_chain(method, scorer, loading.num_layers(model))
    spec = SearchSpec.choose(
        scorer,
        None if scorers is None else read_chains(scorers),
        servable=servable,
        allocation=allocation,
        kernel=kernel,
        mode=mode,  # type: ignore[arg-type]  # refused there if it is none
        solver=solver,
        budgets=tuple(fractions),
        cost=cost,
        seed=seed,
    )
    test_spec = EvaluatorSpec(model=model, limit=test, seed=seed if asked.spec().get("files") else 0, **asked.spec())
    questions = test_spec.samples()
    loaded, processor = loading.load(model)
    per_task = PER_TASK_JOINT if spec.mode == "joint" else PER_TASK
    samples, about = learned.load(asked, processor, seed=seed, model=loaded, per_task=per_task)
    row, effort = settings.resolve(loaded.config, kernel, len(samples))
    questions = questions.for_model(loaded, processor)
    tell_skipped({"data": about["skipped"]} if "skipped" in about else {}, say)
    tell_skipped(questions.skipped, say)
    if has_other_units(budgets):
        from vispco.timing.prediction import as_fractions, typical_size  # noqa: PLC0415

        size = typical_size(loaded, processor, samples)
        fractions = budgets_of(budgets, lambda budget: as_fractions([budget], loaded, size, say)[0])
        spec = replace(spec, budgets=tuple(dict.fromkeys(fractions)))
    batch = max(effort.batch_size, spec.effort.batch_size) if spec.chains else effort.batch_size
    with folder.held():
        frontier = run(
            loaded,
            processor,
            samples,
            spec=replace(spec, preset=row, effort=replace(effort, batch_size=batch)),
            directory=folder,
            test=questions,
            facts={
                **facts(loaded.device),
                "model": model,
                "data": about,
                "tasks": describe_tasks(test_spec, questions),
            },
            show=draws_bars(),
            say=say,
        )
        if not is_first():
            return
        write_areas(folder, about)
        if examples:
            say(f"examples for the page: {examples}")
            add_examples(loaded, processor, of_each_task(questions, examples), folder, say)
        folder.finish()
    table = None if json else points_table(frontier, f"{model}: {folder.path}", cost)
    show({**frontier.to_dict(), "out": str(folder.path)}, as_json=json, table=table)
    if not json:
        unpruned = unpruned_of(folder.path)
        show({}, as_json=False, table=tasks_table(frontier, unpruned))
        typer.echo(fill_lines(verdict(frontier, unpruned.accuracy, cost), sys.stdout))
        tell_next(
            folder.path,
            f"vispco evaluate {model} --pruner {folder.path} --budget {fractions[len(fractions) // 2]:g}",
            f"vispco report {folder.path}",
        )


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
    json: Annotated[bool, typer.Option("--json", help="Print JSON, too.")] = False,
) -> None:
    """What a search found for a budget, as a pruner in one file or folder.

    Every --pruner reads it. A JSON file holds the static schedule for samples of a typical size. A folder holds the
    predictor, or the shapes of all budgets, and works at other budgets, too.

    Examples:

        vispco export runs/qwen --budget 0.4 --out pruner.json

        vispco export runs/qwen --budget 0.4 --out qwen-pruner
    """
    fraction = one_budget(budget)
    path = (
        output_file(out, [run], f"pruner-{fraction:g}.json", "vispco-pruner")
        if out is None or out.suffix == ".json"
        else out
    )
    if path.suffix != ".json":
        check_export(path)
    from vispco.pruner import deployment  # noqa: PLC0415
    from vispco.pruner.pruner import Pruner  # noqa: PLC0415

    if path.suffix == ".json":
        config = deployment.export(run, fraction)
        config.save(path)
        record_output(path)
    else:
        pruner = Pruner.from_pretrained(run, budget=fraction)
        pruner.save_pretrained(path)
        config = pruner.config
    show(config.to_dict(), as_json=json, table=f"{path}: {config.chain}, {config.kind}, {fraction:.0%} of the FLOPs")


def unpruned_of(folder: Path) -> Evaluation:
    """What the unpruned model reaches on the items of a search."""
    from vispco.core.runs.files import read_json_object  # noqa: PLC0415
    from vispco.evaluation import Evaluation  # noqa: PLC0415

    return Evaluation.from_dict(read_json_object(folder / "unpruned.json", what="unpruned evaluation"))


def tasks_table(frontier: Frontier, unpruned: Evaluation) -> Any:
    """Accuracy by task, with the number of items: unpruned, and at each searched budget."""
    points = sorted(frontier.points, key=lambda point: float(point.provenance.get("budget") or 0.0))
    columns = ("task", "items", "unpruned", *(f"{point.provenance['budget']:.0%}" for point in points))
    rows = [
        (
            task.task,
            str(task.n),
            f"{task.accuracy:.0%}",
            *(f"{point.evaluation.tasks[place].accuracy:.0%}" for point in points),
        )
        for place, task in enumerate(unpruned.tasks)
    ]
    return fitted_table(columns, rows, "accuracy by task, at each budget")


def points_table(frontier: Frontier, title: str, cost: str) -> Any:
    """The points of a frontier, cheapest first."""
    from rich.table import Table  # noqa: PLC0415

    table, measured = Table(title=title), any(point.kl is not None for point in frontier.points)
    means = any(point.mean_of for point in frontier.points)
    for column in (
        f"FLOPs ({cost})",
        "accuracy",
        "95 % interval",
        *["KL"] * measured,
        "mean retention by layer" if means else "retention by layer",
    ):
        table.add_column(column, justify="left" if "layer" in column else "right")
    for point in sorted(frontier.points, key=lambda p: p.cost[cost]["fraction"]):
        table.add_row(
            f"{point.cost[cost]['fraction']:.1%}",
            f"{point.accuracy:.1%}",
            f"{point.low:.1%} - {point.high:.1%}",
            *["" if point.kl is None else f"{point.kl:.3g}"] * measured,
            " ".join(f"{r:.2f}" for r in point.schedule.tensor().view(-1, point.schedule.num_layers)[0].tolist()),
        )
    return table
