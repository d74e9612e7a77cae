"""`vispco compare methods`: the paper's first table for one model."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import MethodProgress, bar, fill_lines, fitted_table, show
from vispco.cli.options import AsJson, BatchSize, Overwrite, spread
from vispco.cli.place import RUNS, run_folder, tell_next
from vispco.core.runs.files import write_text
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import budgets_of, budgets_option

if TYPE_CHECKING:
    from vispco.compare.methods import MethodTable, TableSettings
    from vispco.compare.methods.table import Kind

FILE = "methods.json"


@dataclass(frozen=True, kw_only=True)
class _MethodsOptions:
    """What is compared, and at which budgets."""

    budgets: Annotated[str, budgets_option()] = "0.9,0.5,0.3,0.2"
    methods: Annotated[
        str | None,
        typer.Option(
            help="Names with commas between them (default: all), or scorers and chains (divprune+fastv): {methods}."
        ),
    ] = None
    draws: Annotated[int, typer.Option(min=0, help="Random schedules of each method at each budget.")] = 3
    search: Annotated[
        str, typer.Option(help="The search on top of each method, or none; see vispco compare searches.")
    ] = "vispco-halving"
    search_budgets: Annotated[str, typer.Option(help="The budgets at which it is run.")] = "0.5,0.3"
    compensations: Annotated[
        str, typer.Option(help="Tried on each method at those budgets (see --compensate of evaluate), or none.")
    ] = "0.5,0.75,1"
    rounds: Annotated[int, typer.Option(min=0, help="Of timing, after one that warms up; 0 for none.")] = 3
    seed: Annotated[int, typer.Option(min=0, help="Of the schedules that are drawn.")] = 0
    against: Annotated[
        str,
        typer.Option(help="The row that all are held against on the same items, as the table names it: 'fastv @50%'."),
    ] = "unpruned"


@spread
def methods(
    model: ModelSpec,
    *,
    options: _MethodsOptions,
    samples: Annotated[int, typer.Option(min=1, help="Calibration items of each task, for the search.")] = 6,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 8,
    asked: TaskSpec,
    batch_size: BatchSize = 64,
    out: Annotated[Path | None, typer.Option(help="The folder to write to [runs/methods-MODEL]")] = None,
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Published methods side by side, by one account.

    Each as published, scaled to budgets, with random schedules, with compensation, and with a search on top. Accuracy by task with intervals, agreement with the unpruned model, accuracy on the items that a downsampled picture gets
    wrong, FLOPs, KV bytes, visual tokens of a mean layer, and measured time. Writes methods.json, .csv and .tex, and
    leaderboard.json for the results folder of the repository. The same command continues a comparison that was stopped; with
    other methods, it adds them.

    Examples:

        vispco compare methods tiny-qwen --budgets 0.9,0.5,0.3,0.2

        vispco compare methods tiny-qwen --methods fastv,pyramiddrop,sparsevlm:64 --search none

        vispco compare methods tiny-qwen --plugin my_scorer.py --methods my-scorer,divprune+my-scorer,fastv
    """
    fractions, searched = budgets_of(options.budgets), budgets_of(options.search_budgets)
    folder = run_folder(out or RUNS / f"methods-{model.short_name}", overwrite=overwrite)
    from dataclasses import replace  # noqa: PLC0415

    from vispco.compare import searches as rivals  # noqa: PLC0415
    from vispco.compare.methods import (  # noqa: PLC0415
        ComparisonSetup,
        TableSettings,
        csv_text,
        fill_table,
        latex_text,
        text_rows,
    )
    from vispco.compare.methods.fill import chosen_methods  # noqa: PLC0415
    from vispco.compare.methods.table import continued  # noqa: PLC0415
    from vispco.evaluation.leaderboard import LeaderboardEntry  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.families.tower_shape import account_sentence  # noqa: PLC0415
    from vispco.scorers import check_compensation  # noqa: PLC0415
    from vispco.scorers.chain import split_outside  # noqa: PLC0415

    given = [each.strip() for each in options.compensations.split(",") if each.strip() and each.strip() != "none"]
    betas = tuple(map(check_compensation, given))
    asked_for = None if options.methods is None else split_outside(options.methods, ",")
    names = chosen_methods(None if asked_for is None else [name.strip() for name in asked_for if name.strip()])
    if options.search != "none":
        rivals.get(options.search)  # a wrong name is told before a model is loaded
    on_top = None if options.search == "none" else options.search
    settings = TableSettings(
        names,
        tuple(fractions),
        options.draws,
        on_top,
        tuple(searched),
        seed=options.seed,
        rounds=options.rounds,
        compensations=betas,
    )
    spec = EvaluatorSpec(model=model, limit=test, batch_size=batch_size, **asked.spec())
    calibration = spec.calibration(samples)
    asked_on = {"test": spec.fingerprint(), "calibration": calibration.fingerprint()}
    about = {"model": model.name, **asked_on, **settings.to_dict()}
    with folder.claim("compare methods", about):
        table = continued(folder.path / FILE, about)
        done = sum(_is_done(table, settings, name) for name in names)
        with bar(model.name) as shown:
            progress = MethodProgress(shown, len(names), done)
            loaded, processor = model.load()
            setup = ComparisonSetup(
                loaded,
                processor,
                spec.samples().for_model(loaded, processor),
                calibration.samples().for_model(loaded, processor),
                batch_size,
                progress.samples,
            )

            def keep(so_far: MethodTable) -> None:
                so_far.save(folder.file(FILE))
                if so_far.rows[-1].method in names and _is_done(so_far, settings, so_far.rows[-1].method):
                    progress.finish()

            found = fill_table(setup, settings, table, on_method=progress.begin, on_rows=keep)
        details = {**found.details, **about, **facts(loaded.device), "hard_items": len(setup.hard)}
        details["tower_share"] = setup.tower_share
        found = replace(found, details=details)
        compared = {label: each.to_dict() for label, each in found.paired(options.against).items()}
        found = replace(found, details={**details, "paired": {"against": options.against, "rows": compared}})
        found.save(folder.file(FILE))
        write_text(folder.file("methods.csv"), csv_text(found))
        write_text(folder.file("methods.tex"), latex_text(found, options.against))
        tasks = {task: len(scores) for task, scores in found.rows[0].scores.items()}
        compared_methods = ",".join(dict.fromkeys(row.method for row in found.rows if row.kind != "unpruned"))
        details["options"] = {**details["options"], "methods": compared_methods}  # also those of earlier calls
        LeaderboardEntry.of_run("compare methods", model.name, found.rows, tasks, details).write(folder)
        folder.finish()
    title = f"{model.name}, {found.seconds / 60:.1f} minutes: {folder.path / FILE}"
    show(found.to_dict(), as_json=json, table=None if json else fitted_table(*text_rows(found, options.against), title))
    if not json:
        if setup.tower_share is not None:
            typer.echo(fill_lines(account_sentence(setup.tower_share), sys.stdout))
        tell_next(folder.path, f"vispco report RUN {folder.path}  (on the page of a search in RUN)")


def _is_done(table: MethodTable, settings: TableSettings, method: str) -> bool:
    """Whether nothing of a method is left to measure."""
    first = table.row(method, "published")
    if first is None or first.accuracy is None:
        return first is not None
    kinds: dict[Kind, object] = {"compensated": settings.compensations, "searched": settings.search}
    asked = [kind for kind, given in kinds.items() if given]
    return all(table.row(method, kind, budget) is not None for kind in asked for budget in settings.search_budgets)
