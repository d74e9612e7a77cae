"""`vispco compare methods`: the paper's first table for one model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.data import TaskOptions
from vispco.cli.options import MODEL, ModelOptions, spread
from vispco.cli.output import fitted, show
from vispco.cli.search import budgets_of
from vispco.errors import InvalidInputError
from vispco.files import check_writable, write_text

if TYPE_CHECKING:
    from vispco.method_table import MethodTable

FILE = "methods.json"


@spread
def methods(
    model: Annotated[str, typer.Argument(help=MODEL)],
    *,
    budgets: Annotated[str, typer.Option(help="Fractions of the unpruned FLOPs.")] = "0.9,0.5,0.3,0.2",
    methods: Annotated[
        str | None, typer.Option(help="Names with commas between them (default: all): {methods}.")
    ] = None,
    draws: Annotated[int, typer.Option(min=0, help="Random schedules of each method at each budget.")] = 3,
    search: Annotated[
        str, typer.Option(help="The search on top of each method, or none; see vispco compare searches.")
    ] = "vispco-static",
    search_budgets: Annotated[str, typer.Option(help="The budgets at which it is run.")] = "0.5,0.3",
    rounds: Annotated[int, typer.Option(min=0, help="Of timing, after one that warms up; 0 for none.")] = 3,
    samples: Annotated[int, typer.Option(min=1, help="Calibration items of each task, for the search.")] = 4,
    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 8,
    asked: TaskOptions,
    loading: ModelOptions,
    seed: Annotated[int, typer.Option(min=0, help="Of the schedules that are drawn.")] = 0,
    batch_size: Annotated[int, typer.Option(min=1)] = 64,
    out: Annotated[Path, typer.Option(help="The folder to write to.")] = Path("runs/methods"),
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Each method as published, scaled to budgets, with drawn schedules, and with a search on top; all by one account.

    Accuracy by task with intervals, agreement with the unpruned model, accuracy on the items that a downsampled picture gets
    wrong, FLOPs, KV bytes, visual tokens of a mean layer, and measured time. Writes methods.json, .csv and .tex. The same
    command goes on after a stop; with other methods, it adds them.

    Examples:

        vispco compare methods tiny-qwen --budgets 0.9,0.5,0.3,0.2

        vispco compare methods tiny-qwen --methods fastv,pyramiddrop,sparsevlm:64 --search none
    """
    fractions, searched = budgets_of(budgets), budgets_of(search_budgets)
    check_writable(out / FILE)
    _check_own(out)
    from dataclasses import replace  # noqa: PLC0415

    from vispco import rivals  # noqa: PLC0415
    from vispco.cli.config import facts  # noqa: PLC0415
    from vispco.cli.output import ComparisonBars  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.method_table import Ground, TableSettings, fill_table  # noqa: PLC0415
    from vispco.method_table.fill import chosen_methods  # noqa: PLC0415
    from vispco.method_table.table import continued  # noqa: PLC0415

    names = chosen_methods(None if methods is None else [name.strip() for name in methods.split(",") if name.strip()])
    if search != "none":
        rivals.get(search)  # a wrong name is told before a model is loaded
    settings = TableSettings(
        names,
        tuple(fractions),
        draws,
        None if search == "none" else search,
        tuple(searched),
        seed=seed,
        rounds=rounds,
    )
    spec = EvaluatorSpec(model=model, limit=test, batch_size=batch_size, **asked.spec(), **loading.spec())
    learned = replace(spec, split="calibration", limit=samples, files={}, tasks="all" if spec.files else spec.tasks)
    about = {
        "model": model,
        "test": spec.fingerprint(),
        "calibration": learned.fingerprint(),
        **settings.to_dict(),
    }
    table = continued(out / FILE, about)
    done = sum(table.row(name, "published") is not None for name in names)
    with ComparisonBars(len(names), done, quiet=json) as bars:
        loaded, processor = spec.load()
        ground = Ground(
            loaded,
            processor,
            spec.samples().for_model(loaded, processor),
            learned.samples().for_model(loaded, processor),
            batch_size,
            bars.inside,
        )
        seen: set[str] = set()

        def keep(so_far: MethodTable) -> None:
            so_far.save(out / FILE)
            last = so_far.rows[-1].method
            if last in names and last not in seen and so_far.rows[-1].kind != "searched":
                seen.add(last)
                bars.finish()

        found = fill_table(ground, settings, table, on_method=bars.begin, on_rows=keep)
    found = replace(found, details={**about, **facts(loaded.device), "hard_items": len(ground.hard)})
    _write(found, out)
    show(found.to_dict(), as_json=json, table=None if json else _screen(found, f"{model}: {out / FILE}"))


def _check_own(out: Path) -> None:
    """Refuse a folder whose .csv or .tex no table of ours stands beside: they would be replaced."""
    others = [(out / FILE).with_suffix(ending) for ending in (".csv", ".tex")]
    found = [path.name for path in others if path.exists()]
    if found and not (out / FILE).exists():
        raise InvalidInputError(
            f"{out} holds {' and '.join(found)} without a {FILE} of this command, so they are not its own. Give another "
            "folder with --out."
        )


def _write(found: MethodTable, out: Path) -> None:
    from vispco.method_table import csv_text, latex_text  # noqa: PLC0415

    found.save(out / FILE)
    write_text((out / FILE).with_suffix(".csv"), csv_text(found))
    write_text((out / FILE).with_suffix(".tex"), latex_text(found))


def _screen(found: MethodTable, title: str) -> Any:
    from vispco.method_table import text_rows  # noqa: PLC0415

    columns, rows = text_rows(found)
    return fitted(columns, rows, title)
