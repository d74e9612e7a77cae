"""`vispco compare searches`: the paper's second table for one model, and searches on equal terms."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.config import facts
from vispco.cli.console import MethodProgress, bar, fitted_table, show
from vispco.cli.names import Group
from vispco.cli.options import AsJson, BatchSize, Overwrite, spread
from vispco.cli.place import RUNS, run_folder, tell_next
from vispco.compare.compare_options import SearchesOptions
from vispco.core.errors import needs_extra
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import one_budget

if TYPE_CHECKING:
    from vispco.compare.searches import Comparison

FILE, FIGURE = "comparison.json", "search-cost.png"
app = typer.Typer(
    help="Published methods, or searches, side by side.", cls=Group, no_args_is_help=True, rich_markup_mode=None
)


@app.command("searches")
@spread
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
    budgets, also what each search reached at the cost of vispco, and what it paid for as much. Run it again to continue an
    interrupted comparison, method by method; with other methods, it adds them. Without names, it runs vispco and a rival of
    each kind.

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
        so_far.save(folder.file(FILE))
        progress.finish()

    with folder.claim("compare", {**ground, "budget": fraction, "cost": options.cost}):
        done = load_finished_rows(folder.path / FILE, fraction, options.cost, ground)
        with bar(model.name) as shown:
            progress = MethodProgress(shown, len(names), len({row.method for row in done} & set(names)))
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
        found.save(folder.file(FILE))
        draw_searches(search_cost_info(found), folder.file(FIGURE))
        folder.finish()
    files = f"{folder.path / FILE}, {folder.path / FIGURE}"
    title = f"{model.name} at {fraction:.0%} of the FLOPs ({options.cost}), {files}"
    show(found.to_dict(), as_json=json, table=None if json else _tables(found, title))
    if not json:
        tell_next(folder.path, f"vispco plot {folder.path}")


def _tables(found: Comparison, title: str) -> Any:
    from rich.console import Group  # noqa: PLC0415

    from vispco.compare.searches import equal_terms_table, narrow_tables  # noqa: PLC0415

    cost, accuracy = narrow_tables(found)
    shown = [fitted_table(cost.columns, cost.rows, title), fitted_table(accuracy.columns, accuracy.rows, "accuracy, %")]
    equal = equal_terms_table(found)
    if equal is not None:
        shown.append(fitted_table(equal.columns, equal.rows, "on equal terms"))
    left_out = [f"{name} was not run: {why}" for name, why in found.details.get("not_run", {}).items()]
    return Group(*shown, *left_out)
