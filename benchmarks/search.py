"""Does the search find what exhaustive search finds, for a tenth of its price, and what do per-input schedules add?

    python benchmarks/search.py [--calibration 256] [--test 48] [--only grid,tpe] [--cache runs/bench-search]

Every method sees the same calibration set and is judged on the same test set, by the answers that greedy decoding writes
to the letter (teacher-forced). FLOPs are the language model's; a search's bill has its teacher and backward passes.
Each part leaves a file in the cache, and one that is there already is not run again: after a kill, run the same command.
With --only, the other parts are those of the last result, and `measured_again` in the details says which were run.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from functools import partial
from pathlib import Path
from typing import Any

import torch

import search_parts as parts
import search_static
from figures import RESULTS, Figure, write
from search_lab import BUDGETS, Lab, volume
from vispco.core.runs.files import write_json
from vispco.cost import BudgetWarning

PAPER = ("single", "p-sigmoid", "linear", "exponential", "multi-step")
MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")


def plan(cache: Path) -> dict[str, Any]:
    """The parts by name, in the order in which they run: what the figures need first."""

    def static(kernel: str, mode: str, solver: str) -> Any:
        return lambda lab, _: parts.searched(lab, kernel, mode, solver)

    return {
        "unpruned": parts.unpruned,
        "table": parts.table,
        "gap": parts.gap,
        "one-search": parts.one_search,
        "grid": parts.grid,
        "line-single": static("single", "line", "line"),
        "lagrangian-single": static("single", "static", "lagrangian"),
        "tpe": parts.tpe,
        "random": parts.at_random,
        "violations": parts.violations,
        "projection-steps": static("steps", "static", "projection"),
        **{f"converged-{name}": partial(search_static.converged, name=name) for name in MODELS},
        "lagrangian-multi-step": static("multi-step", "static", "lagrangian"),
        "line-multi-step": static("multi-step", "line", "line"),
        "bias": search_static.bias,
        "flattered": parts.flattered,
        "lagrangian-exponential": static("exponential", "static", "lagrangian"),
        "projection-free": static("free", "static", "projection"),
        "lagrangian-p-sigmoid": static("p-sigmoid", "static", "lagrangian"),
        "lagrangian-linear": static("linear", "static", "lagrangian"),
        "predictor-lagrangian-single": lambda lab, _: parts.trained(lab, cache, "single", "lagrangian"),
        "predictor-projection-steps": lambda lab, _: parts.trained(lab, cache, "steps", "projection"),
    }


def run(given: argparse.Namespace, cache: Path) -> dict[str, Any]:
    """All parts that are not in the cache yet; -> what each found."""
    settings = {name: getattr(given, name) for name in ("model", "scorer", "calibration", "test")}
    only = [name for name in given.only.split(",") if name]
    last = json.loads((RESULTS / "search.json").read_text())["details"]["parts"] if only else {}
    found, lab = {}, None
    for name, part in plan(cache).items():
        file = cache / f"{name}.json"
        kept = json.loads(file.read_text()) if file.is_file() else {}
        if kept.get("settings") == settings:
            found[name] = kept["found"]
            continue
        if only and name not in only:
            found |= {name: last[name]} if name in last else {}
            continue
        lab = lab or Lab(given.model, given.scorer, given.calibration, given.test)
        print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
        clock, cpu = time.perf_counter(), time.process_time()
        found[name] = part(lab, cache)
        took = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - cpu}
        write_json(file, {"settings": settings, "found": found[name], "took": took})
        tell(name, found[name])
    return found


def tell(name: str, found: Any) -> None:
    if "volume" in found:
        points = " ".join(f"{b}:{p[1]:.3f}" for b, p in found["points"].items())
        print(f"  {name} volume {found['volume']:.4f} flops {found['flops']:.3g} s {found['seconds']:.0f} | {points}")


def by_calibration(found: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Of several searches, at each budget the one with the least calibration KL; the bill is that of all of them."""
    points, who = {}, {}
    for budget in (f"{b:g}" for b in BUDGETS):
        who[budget] = min(names, key=lambda name: found[name]["calibration_kl"][budget])
        points[budget] = found[who[budget]]["points"][budget]
    bill = {key: sum(found[name][key] for name in names) for key in ("flops", "shared")}
    return {"points": points, "volume": volume(points), "who": who, **bill}


def figures_of(found: dict[str, Any], given: argparse.Namespace) -> tuple[dict[str, Figure], dict[str, Any]]:
    """The figures of all parts that have run, and their details."""
    made: dict[str, Figure] = {}
    details: dict[str, Any] = {"model": given.model, "scorer": given.scorer, "budgets": list(BUDGETS)}

    def ratio(name: str, value: float, better: Any, bar: float | None) -> None:
        made[name] = Figure(value, better, bar, "ratio")

    table, grid = found.get("table"), found.get("grid")
    whole = None if grid is None else max((grid[how] for how in ("accuracy", "kl")), key=lambda each: each["volume"])
    if table and whole:
        paper = found.get("lagrangian-single")
        if paper:
            ratio("hypervolume_vs_grid.paper", paper["volume"] / whole["volume"], "higher", 0.99)
        names = [f"lagrangian-{kernel}" for kernel in PAPER if f"lagrangian-{kernel}" in found]
        if len(names) > 1:
            details["paper_kernels_by_calibration_kl"] = by_calibration(found, names)
        ratio("hypervolume_vs_grid.best", table["volume"] / whole["volume"], "higher", 1.0)
        ratio("cost_vs_grid", table["flops"] / whole["flops"], "lower", 0.1)
        ratio("cost_vs_grid_sharing_prefixes", table["shared"] / whole["shared"], "lower", None)
        if paper:
            ratio("cost_vs_grid_paper", paper["flops"] / whole["flops"], "lower", 0.1)
        if "flattered" in found:
            ratio("hypervolume_vs_flattered_grid", table["volume"] / found["flattered"]["volume"], "higher", None)
    if table and "random" in found:
        at_50, others = table["points"]["0.5"][1], found["random"]
        made["points_over_random_mean_at_50"] = Figure(100 * (at_50 - others["mean"]), "higher", 8, "points")
        made["points_over_random_best_at_50"] = Figure(100 * (at_50 - others["best"]), "higher", 0, "points")
    if table and "tpe" in found:
        ratio("hypervolume_vs_tpe", table["volume"] / found["tpe"]["volume"], "higher", 1.0)
        over = {b: 100 * (table["points"][b][1] - found["tpe"]["points"][b][1]) for b in table["points"]}
        made["points_over_tpe_at_worst_budget"] = Figure(min(over.values()), "higher", 0, "points")
        details["points_over_tpe"] = over
        worst = max(table["points"][b][2] / found["tpe"]["points"][b][2] for b in table["points"])
        ratio("kl_vs_tpe_at_worst_budget", worst, "lower", 1.0)
    asked = {b: each for b, each in found.get("gap", {}).items() if b in ("0.3", "0.4", "0.5")}  # the others: details
    for budget, each in asked.items():
        ratio(f"gap_closed.{round(100 * float(budget))}", each["closed_kl"], "higher", 0.3)
    for budget, each in ((b, each) for b, each in asked.items() if each["closed"] is not None):
        ratio(f"gap_closed_accuracy.{round(100 * float(budget))}", each["closed"], "higher", None)
    if "violations" in found:
        over = found["violations"]["violations"] + sum(each.get("violations", 0) for n, each in found.items() if n != "violations")  # fmt: skip
        made["budget_violations"] = Figure(over, "lower", 0, "samples")
    if "one-search" in found:
        made["seconds"] = Figure(found["one-search"]["seconds"], "lower", 180, "seconds")
    meets = {f"{m}/{n}": one["converged"] for m in MODELS for n, one in found.get(f"converged-{m}", {}).items()}
    if meets:
        made["converged"] = Figure(sum(meets.values()) / len(meets), "higher", 1.0, "share")
        details["convergence"] = {"searches": len(meets), "not_converged": [n for n, good in meets.items() if not good]}
    details["notes"] = [
        "hypervolume_vs_grid.paper: Algorithm 1 with the kernel of the grid (single), at every budget.",
        "hypervolume_vs_grid.best and cost_vs_grid: the predictor taught by a table, all budgets from one search.",
        "The grid chooses on the calibration set, by accuracy or by KL, whichever gives it the greater volume.",
        "cost_vs_grid_sharing_prefixes: both sides take unpruned first layers from one pass instead of anew.",
        "hypervolume_vs_flattered_grid: the paper's protocol, whose grid chooses on the test set that it is judged on.",
        "seconds: `vispco search tiny-qwen --scorer fastv`, else with its defaults, frontier and examples included, two threads, wall time.",
        "gap_closed: of the mean KL, which the search minimises; gap_closed_accuracy: of the accuracy, on the same samples.",
        "points_over_tpe_at_worst_budget: a point is 3.84 test samples; kl_vs_tpe_at_worst_budget: the same by test KL.",
        "At budgets that a single layer cannot reach, deployment cuts its curve from above (vispco.cost.meet): two steps.",
        "points_over_random_best_at_50: the best of the random schedules is picked on the test set, which flatters it.",
        "Parts ran at different loads of the machine: their seconds are no comparison. Parts not listed have not been run.",
    ]
    details["measured_again"] = [name for name in found if (given.cache / f"{name}.json").is_file()]
    details["parts"] = found
    return made, details


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-qwen")
    parser.add_argument("--scorer", default="fastv")
    parser.add_argument("--calibration", type=int, default=256, help="samples per task")
    parser.add_argument("--test", type=int, default=48, help="samples per task")
    parser.add_argument("--only", default="", help="these parts alone, with commas between them")
    parser.add_argument("--cache", type=Path, default=Path("runs/bench-search"))
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore", BudgetWarning)  # 0.2 lies under the floor of small pictures, and is raised to it
    given.cache.mkdir(parents=True, exist_ok=True)
    figures, details = figures_of(run(given, given.cache), given)
    write("search", figures, details, seed=0)


if __name__ == "__main__":
    main()
