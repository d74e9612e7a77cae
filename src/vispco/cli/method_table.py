"""`vispco compare methods`: the paper's first table for one model."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import MethodProgress, bar, fill_lines, fitted_table, show
from vispco.cli.options import AsJson, BatchSize, Overwrite, spread
from vispco.cli.place import RUNS, run_folder, tell_next
from vispco.compare.compare_options import MethodsOptions
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec

if TYPE_CHECKING:
    from vispco.compare.methods import MethodTable


@spread
def methods(
    model: ModelSpec,
    *,
    options: MethodsOptions,
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
    folder = run_folder(out or RUNS / f"methods-{model.short_name}", overwrite=overwrite)
    from vispco.compare.methods import ComparisonSetup, fill_table, text_rows, write_table  # noqa: PLC0415
    from vispco.compare.methods.table import FILE, continued  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.families.tower_shape import account_sentence  # noqa: PLC0415

    settings = options.settings()
    spec = EvaluatorSpec(model=model, limit=test, batch_size=batch_size, **asked.spec())
    calibration = spec.calibration(samples)
    asked_on = {"test": spec.fingerprint(), "calibration": calibration.fingerprint()}
    about = {"model": model.name, **asked_on, **settings.to_dict()}
    with folder.claim("compare methods", about):
        table = continued(folder.path / FILE, about)
        done = sum(table.is_done(name, settings) for name in settings.methods)
        with bar(model.name) as shown:
            progress = MethodProgress(shown, len(settings.methods), done)
            loaded, processor = model.load()
            tested, used = (each.samples().for_model(loaded, processor) for each in (spec, calibration))
            setup = ComparisonSetup(loaded, processor, tested, used, batch_size, progress.samples)

            def keep(so_far: MethodTable) -> None:
                so_far.save(folder.file(FILE))
                last = so_far.rows[-1].method
                if last in settings.methods and so_far.is_done(last, settings):
                    progress.finish()

            found = fill_table(setup, settings, table, on_method=progress.begin, on_rows=keep)
        measured = {"hard_items": len(setup.hard), "tower_share": setup.tower_share}
        found = write_table(found, folder, {**about, **facts(loaded.device), **measured}, options.against)
        folder.finish()
    title = f"{model.name}, {found.seconds / 60:.1f} minutes: {folder.path / FILE}"
    show(found.to_dict(), as_json=json, table=None if json else fitted_table(*text_rows(found, options.against), title))
    if not json:
        if setup.tower_share is not None:
            typer.echo(fill_lines(account_sentence(setup.tower_share), sys.stdout))
        tell_next(folder.path, f"vispco report RUN {folder.path}  (on the page of a search in RUN)")
