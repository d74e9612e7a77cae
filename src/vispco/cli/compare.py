"""`vispco compare`: the paper's first table for one model (methods) and its second (searches), on equal terms."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.config import facts
from vispco.cli.console import bar, draws_bars, fill_lines, fitted_table, say, show
from vispco.cli.names import Group
from vispco.cli.options import AsJson, BatchSize, Overwrite
from vispco.cli.place import RUNS, run_folder, tell_next
from vispco.compare.compare_options import MethodsOptions, SearchesOptions
from vispco.core.errors import needs_extra
from vispco.core.progress_lines import ProgressBar
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import one_budget

if TYPE_CHECKING:
    from vispco.compare.methods import MethodTable
    from vispco.compare.searches import Comparison

_FILE, _FIGURE = "comparison.json", "search-cost.png"
app = typer.Typer(
    help="Published methods, or searches, side by side.", cls=Group, no_args_is_help=True, rich_markup_mode=None
)


@app.command("searches")
def searches(
    model: ModelSpec,
    *,
    options: SearchesOptions,
    samples: Annotated[int, typer.Option(min=1, help="Calibration items of each task.")] = 8,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 8,
    asked: TaskSpec,
    batch_size: BatchSize = 64,
    out: Annotated[Path | None, typer.Option(help="The folder to write to [runs/compare-MODEL-SCORER]")] = None,
    overwrite: Overwrite = False,
    json: AsJson = False,
) -> None:
    """Searches side by side: accuracy, FLOPs, and what each search cost.

    Accuracy per task, FLOPs, the cost of the search in FLOPs and seconds; a JSON file and a figure of them. With further
    budgets, also what each search reached at the cost of vispco, and what it paid for as much. Run it again to continue
    an interrupted comparison, method by method; with other methods, it adds them. Without names, it runs vispco and a
    rival of each kind.

    Examples:

        vispco compare searches tiny-qwen

        vispco compare searches tiny-qwen --budgets none --searches vtw,random-40,vispco-static,scaled:pyramiddrop
    """
    fraction = one_budget(options.budget)
    folder = run_folder(out or RUNS / f"compare-{model.short_name}-{options.scorer}", overwrite=overwrite)
    more = options.further()
    from vispco.compare.searches import Calibration, ComparedBudgets, compare, search_cost_info  # noqa: PLC0415
    from vispco.compare.searches.search_comparison import load_finished_rows  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.report.plots.search_cost import draw_searches  # noqa: PLC0415
    from vispco.scorers import Chain  # noqa: PLC0415

    with needs_extra("The figure of a comparison needs matplotlib", "plots"):
        import matplotlib as mpl  # noqa: F401, PLC0415 - drawn at the end, refused before the work
    chosen = options.searches()
    names = [search.label for search in chosen]
    spec = EvaluatorSpec(
        model=model, scorer=Chain.of(options.scorer).to_dict(), limit=test, batch_size=batch_size, **asked.spec()
    )
    calibration = spec.calibration(samples)
    ground = {
        "model": model.name,
        "scorer": options.scorer,
        "calibration": calibration.fingerprint(),
        "test": spec.fingerprint(),
        "measure": options.measure,
        "seed": options.seed,
        "budgets": more,
    }

    def keep(so_far: Comparison) -> None:
        so_far.save(folder.file(_FILE))
        progress.finish()

    with folder.claim("compare", {**ground, "budget": fraction, "cost": options.cost}):
        done = load_finished_rows(folder.path / _FILE, fraction, options.cost, ground)
        with bar(model.name) as shown:
            progress = _MethodProgress(shown, len(names), len({row.method for row in done} & set(names)))
            loaded = calibration.build(progress=progress.samples)
            found = compare(
                Calibration(loaded, measure=options.measure, cost=options.cost),  # type: ignore[arg-type]  # checked there
                loaded.on(spec.samples(), progress=progress.samples),
                ComparedBudgets(fraction, more, options.beyond),
                chosen,
                details={**ground, **facts(loaded.model.device)},
                done=done,
                on_method=progress.begin,
                on_row=keep,
            )
        found.save(folder.file(_FILE))
        draw_searches(search_cost_info(found), folder.file(_FIGURE))
        folder.finish()
    files = f"{folder.path / _FILE}, {folder.path / _FIGURE}"
    title = f"{model.name} at {fraction:.0%} of the FLOPs ({options.cost}), {files}"
    show(found.to_dict(), as_json=json, table=None if json else _tables(found, title))
    if not json:
        tell_next(folder.path, f"vispco plot {folder.path}")


def _tables(found: Comparison, title: str) -> Any:
    from rich.console import Group  # noqa: PLC0415

    from vispco.compare.searches import equal_terms_table, narrow_tables  # noqa: PLC0415

    cost, accuracy = narrow_tables(found)
    shown = [fitted_table(*cost, title), fitted_table(*accuracy, "accuracy, %")]
    equal = equal_terms_table(found)
    if equal is not None:
        shown.append(fitted_table(*equal, "on equal terms"))
    left_out = [f"{name} was not run: {why}" for name, why in found.details.get("not_run", {}).items()]
    return Group(*shown, *left_out)


@app.command("methods")
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

    Each as published, scaled to budgets, with random schedules, with compensation, and with a search on top. Accuracy
    by task with intervals, agreement with the unpruned model, accuracy on the items that a downsampled picture gets
    wrong, FLOPs, KV bytes, visual tokens of a mean layer, and measured time. Writes methods.json, .csv and .tex, and
    leaderboard.json for the results folder of the repository. The same command continues a comparison that was stopped;
    with other methods, it adds them.

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
            progress = _MethodProgress(shown, len(settings.methods), done)
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


class _MethodProgress:
    """Progress of a comparison: which method of how many, and the samples of what is being measured."""

    def __init__(self, shown: ProgressBar, total: int, done: int) -> None:
        self._shown, self._total, self._done = shown, total, done
        self._name = "loading the model"

    def begin(self, method: str) -> None:
        """A method begins."""
        self._name = method
        if not draws_bars():
            say(f"{self._done + 1} of {self._total}: {method}")
        self._shown.tell(text=f"{self._done + 1} of {self._total}: {method}")

    def finish(self) -> None:
        """It has been evaluated, too."""
        self._done += 1

    def samples(self, done: int, total: int) -> None:
        """Samples of the current evaluation that are done."""
        self._shown.tell(done, total, f"{self._name}: samples")
