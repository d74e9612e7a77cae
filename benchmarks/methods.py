"""Published methods on the shipped models, by one account, and what a search of their schedules adds to each.

    python benchmarks/methods.py [--models tiny-qwen,tiny-llava,tiny-gemma] [--test 8] [--out build/methods]

The same as `vispco compare methods` for each model; it goes on after a stop. hypervolume.METHOD.MODEL: the area under accuracy
by cost of the method as published and scaled to the budgets, from no accuracy at the unpruned cost. points_of_search.METHOD:
accuracy with the search minus scaled, at 50 % and 30 % of the FLOPs, mean over models; a method may lose by it.
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from statistics import fmean

import numpy as np

from figures import Figure, write
from vispco import zoo
from vispco.data import dataset
from vispco.frontier.measures import hypervolume
from vispco.method_table import Ground, MethodTable, TableSettings, fill_table
from vispco.method_table.fill import chosen_methods
from vispco.method_table.table import continued

FEWEST = 22  # methods that must run
SEED = 0


def filled(model: str, settings: TableSettings, test: int, samples: int, out: Path) -> MethodTable:
    """The table of one model, from where an earlier run stopped."""
    path = out / f"{model}.json"
    table = continued(path, {"model": model, "test": test, "samples": samples, **settings.to_dict()})
    loaded, processor = zoo.load(model)
    tests, calibration = (list(dataset(split, limit=n)) for split, n in (("test", test), ("calibration", samples)))
    ground = Ground(loaded, processor, tests, calibration)
    return fill_table(
        ground, settings, table, on_method=lambda name: print(model, name, flush=True), on_rows=lambda t: t.save(path)
    )


def area(table: MethodTable, method: str) -> float | None:
    points = [
        (row.fraction, row.accuracy)
        for row in table.rows
        if row.method == method and row.kind in ("published", "scaled") and row.accuracy is not None
    ]
    return hypervolume(np.array(points, dtype=np.float64), (1.0, 0.0)) if points else None


def gains(table: MethodTable, method: str) -> list[float]:
    """Points of accuracy that the search adds at each budget where it was run."""
    found = []
    for row in table.rows:
        scaled = table.row(method, "scaled", row.budget) if (row.method, row.kind) == (method, "searched") else None
        if scaled is not None and row.accuracy is not None and scaled.accuracy is not None:
            found.append(100 * (row.accuracy - scaled.accuracy))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(zoo.names()[:3]))
    parser.add_argument("--methods", help="names with commas between them (default: all)")
    parser.add_argument("--test", type=int, default=8, help="test items of each task")
    parser.add_argument("--samples", type=int, default=4, help="calibration items of each task")
    parser.add_argument("--out", type=Path, default=Path("build/methods"))
    given = parser.parse_args()
    settings = TableSettings(chosen_methods(None if given.methods is None else given.methods.split(",")), seed=SEED)
    tables = {name: filled(name, settings, given.test, given.samples, given.out) for name in given.models.split(",")}
    ran = [m for m in settings.methods if all(area(table, m) is not None for table in tables.values())]
    figures = {"methods": Figure(len(ran), "higher", FEWEST, "count")}
    for method in ran:
        for name, table in tables.items():
            found = area(table, method)
            assert found is not None
            figures[f"hypervolume.{method}.{name}"] = Figure(round(found, 4), "higher", None, "ratio")
        added = [gain for table in tables.values() for gain in gains(table, method)]
        if added:
            figures[f"points_of_search.{method}"] = Figure(round(fmean(added), 2), "higher", None, "points")
    details = {name: replace(table, details={}).to_dict()["rows"] for name, table in tables.items()}
    write("methods", figures, details, SEED)


if __name__ == "__main__":
    main()
