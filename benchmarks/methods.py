"""Published methods on the shipped models, by one account, and what a search of their schedules adds to each.

    python benchmarks/methods.py [--models tiny-qwen,tiny-llava,tiny-gemma] [--test 12] [--out build/methods] [--timed DIR]

The rows of `vispco compare methods` for each model, without drawn schedules and times; it goes on after a stop.
hypervolume.METHOD.MODEL: the area under accuracy by cost of the method as published and scaled to the budgets, from no accuracy
at the unpruned cost. points_of_search.METHOD.BUDGET: accuracy with the search minus scaled, at 50 % and 30 % of the FLOPs, mean
over models; a method may lose by it. points_of_search_mean.BUDGET: over methods, too. lost_by_search: the share of all methods,
models and budgets at which the search lowers the accuracy. minutes_of_compare.MODEL: what `vispco compare methods MODEL` took with its defaults, from
the folders that it wrote (--timed).
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from figures import Figure, write
from vispco import models as zoo
from vispco.compare.methods import ComparisonSetup, MethodTable, MethodTableRow, TableSettings, fill_table
from vispco.compare.methods.fill import chosen_methods
from vispco.compare.methods.on_top import STAYS
from vispco.compare.methods.table import continued
from vispco.data import dataset
from vispco.evaluation.frontier import hypervolume

FEWEST = 22  # methods that must run
LONGEST = 30  # minutes
SEED = 0
KEPT = ("accuracy", "low", "high", "loyalty", "hard_accuracy", "fraction", "flops", "kv_bytes", "mean_inputs")


def filled(model: str, settings: TableSettings, test: int, samples: int, out: Path) -> MethodTable:
    """The table of one model, from where an earlier run stopped."""
    path = out / f"{model}.json"
    table = continued(path, {"model": model, "test": test, "samples": samples, **settings.to_dict()})
    loaded, processor = zoo.load(model)
    tests, calibration = (list(dataset(split, limit=n)) for split, n in (("test", test), ("calibration", samples)))
    setup = ComparisonSetup(loaded, processor, tests, calibration)
    return fill_table(
        setup, settings, table, on_method=lambda name: print(model, name, flush=True), on_rows=lambda t: t.save(path)
    )


def area(table: MethodTable, method: str) -> float | None:
    points = [
        (row.fraction, row.accuracy)
        for row in table.rows
        if row.method == method and row.kind in ("published", "scaled") and row.accuracy is not None
    ]
    return hypervolume(np.array(points, dtype=np.float64), (1.0, 0.0)) if points else None


def gain(table: MethodTable, method: str, budget: float) -> float | None:
    """Points of accuracy that the search adds at a budget; None where it was not run."""
    own, found = (table.row(method, kind, budget) for kind in ("scaled", "searched"))
    if own is None or found is None or own.accuracy is None or found.accuracy is None:
        return None
    return 100 * (found.accuracy - own.accuracy)


def rounded_row(row: MethodTableRow) -> dict[str, Any]:
    """A row of the details: rounded, with each task's accuracy."""
    numbers = {name: getattr(row, name) for name in KEPT}
    return {
        "method": row.method,
        "kind": row.kind,
        "budget": row.budget,
        "chain": row.chain,
        **{name: value if value is None else round(value, 4) for name, value in numbers.items()},
        "tasks": {task: round(values[0], 4) for task, values in row.tasks.items()},
        "note": row.note,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.names()[:3]))
    parser.add_argument("--methods", help="names with commas between them (default: all)")
    parser.add_argument("--test", type=int, default=12, help="test items of each task")
    parser.add_argument("--samples", type=int, default=4, help="calibration items of each task")
    parser.add_argument("--out", type=Path, default=Path("build/methods"))
    parser.add_argument("--timed", type=Path, nargs="*", default=[], help="folders of `vispco compare methods MODEL`")
    parser.add_argument("--fill", action="store_true", help="measure, and write no figures yet")
    given = parser.parse_args()
    names = chosen_methods(None if given.methods is None else given.methods.split(","))
    settings = TableSettings(names, draws=0, rounds=0, seed=SEED)
    tables = {name: filled(name, settings, given.test, given.samples, given.out) for name in given.models.split(",")}
    if given.fill:
        return
    ran = [m for m in settings.methods if all(area(table, m) is not None for table in tables.values())]
    figures = {"methods": Figure(len(ran), "higher", FEWEST, "count")}
    for path in given.timed:
        found = MethodTable.load(path / "methods.json")
        minutes = round(found.seconds / 60, 1)
        figures[f"minutes_of_compare.{found.details['model']}"] = Figure(minutes, "lower", LONGEST, "min")
    gains: list[tuple[float, float]] = []
    for method in ran:
        for name, table in tables.items():
            figures[f"hypervolume.{method}.{name}"] = Figure(
                round(area(table, method) or 0.0, 4), "higher", None, "ratio"
            )
        for budget in settings.search_budgets:
            added = [each for table in tables.values() if (each := gain(table, method, budget)) is not None]
            gains += [(budget, each) for each in added]
            if added:
                figures[f"points_of_search.{method}.{100 * budget:.0f}%"] = Figure(
                    round(fmean(added), 2), "higher", None, "points"
                )
    for budget in settings.search_budgets:
        mean = fmean(each for at, each in gains if at == budget)
        figures[f"points_of_search_mean.{100 * budget:.0f}%"] = Figure(round(mean, 1), "higher", None, "points")
    lost = sum(each < -1e-6 for _, each in gains) / len(gains)
    figures["lost_by_search"] = Figure(round(lost, 4), "lower", None, "fraction")
    details = {
        "items_of_each_task": {"test": given.test, "calibration": given.samples},
        "own_schedule_stays": {
            name: sum(STAYS in row.note for row in table.rows if row.kind == "searched")
            for name, table in tables.items()
        },
        "minutes": {name: round(table.seconds / 60, 1) for name, table in tables.items()},
        **{name: [rounded_row(row) for row in table.rows] for name, table in tables.items()},
    }
    write("methods", figures, details, SEED)


if __name__ == "__main__":
    main()
