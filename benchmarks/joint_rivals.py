"""The rivals of the joint search, for `joint.py`: TPE over the same space at the same bill, and others at theirs.

Parts, for each model: `tpe-SEED` (TPE over chains and curves, stopped at the bill of the joint search with that seed) and
`rival-NAME` for each of `RIVALS`. Those that can be stopped get the bill of the first joint search, the others spend what they
spend. They learn from the same calibration items in the same order, and are judged on the same test items.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from figures import Figure
from vispco.compare.searches import AnytimeRival, Calibration, get, run_search
from vispco.compare.searches.search_registry import takes
from vispco.core.errors import BudgetFloorError, NotApplicableError
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.frontier import hypervolume
from vispco.search.search_spec import BUDGETS

LOW = (0.18, 0.25)
RIVALS = ("scaled", "vflowopt", "evolution", "autoprune", "btp-layers", "downsample")
LEAD = -0.5  # points: the bar of the least lead over the best rival
SCORER = "fastv"  # of the rivals that bring none of their own
SETTINGS = {"vflowopt": {"samples": 128}}
"""What a rival gets in place of its defaults: at this bill 30 samples would mean a Gaussian process over a thousand calls."""
Points = dict[str, dict[str, float]]
Bill = Callable[[int], float | None]
"""FLOPs of the joint search with a seed; None where it has not run."""


def rival_parts(ground: Callable[[], Any], seeds: int, bill: Bill) -> dict[str, Callable[[], dict[str, Any]]]:
    """All parts by name. ground: the model and the items, as `joint.py` has them."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for seed in range(seeds):
        found[f"tpe-{seed}"] = lambda seed=seed: run_part(ground(), "tpe-joint", seed, bill)
    for name in RIVALS:
        found[f"rival-{name}"] = lambda name=name: run_part(ground(), name, 0, bill)
    return found


def run_part(ground: Any, name: str, seed: int, bill: Bill) -> dict[str, Any]:
    """One search on one model: the points that it reaches, and its bill."""
    search = get(name, **SETTINGS.get(name, {}), **({"seed": seed} if takes(name, "seed") else {}))
    limit = bill(seed) if isinstance(search, AnytimeRival) else None
    if limit is None and isinstance(search, AnytimeRival):
        raise SystemExit(f"The joint search with seed {seed} has not run on {ground.name}. Run its part first.")
    samples = in_order_of(ground.calibration, seed)
    learned = TaskEvaluator(ground.model, ground.processor, samples, SCORER, batch_size=32)
    budgets = (*LOW, *BUDGETS) if name == "tpe-joint" else BUDGETS
    try:
        run = run_search(search, Calibration(learned, measure="kl"), budgets, bill=limit)
    except (NotApplicableError, BudgetFloorError) as error:
        return {"points": {}, "not_run": str(error)}
    judge = TaskEvaluator(ground.model, ground.processor, ground.test, SCORER, batch_size=64, store=ground.judge.store)
    points = {
        f"{budget:g}": {"fraction": found.fraction["exact"], "accuracy": found.accuracy}
        for budget, found in run.evaluate(judge).items()
    }
    chosen = {f"{b:g}": _chosen(candidate.provenance) for b, candidate in run.candidates.items()}
    return {
        "points": points,
        "seconds": run.seconds,
        "spent": run.spent.to_dict(),
        "bill": limit,
        "evaluations": run.evaluations,
        "chosen": chosen,
        "under_floor": {f"{budget:g}": why for budget, why in run.under_floor.items()},
    }


def in_order_of(samples: list[Any], seed: int) -> list[Any]:
    """The samples in an order of their own for each seed: rows of one item of each task, as `vispco search` has them."""
    width = len({sample.task for sample in samples})
    rows = torch.randperm(len(samples) // width, generator=torch.Generator().manual_seed(seed)).tolist()
    return [samples[width * row + place] for row in rows for place in range(width)]


def _chosen(provenance: Any) -> dict[str, Any]:
    return {key: provenance[key] for key in ("chain", "method", "layers", "score") if key in provenance}


def volume(points: Points, lowest: float = 0.0) -> float:
    """The hypervolume of hard budgets from the lowest on, over fractions up to 1 and accuracies from 0."""
    hard = [p for budget, p in points.items() if not budget.startswith("mean") and float(budget) >= lowest]
    values = np.array([(point["fraction"], point["accuracy"]) for point in hard]).reshape(-1, 2)
    return hypervolume(values, reference=(1.0, 0.0))


def rival_figures(found: dict[str, dict[str, Any]]) -> dict[str, Figure]:
    """Of each model: the hypervolume over TPE's, the least lead over TPE, and over the best rival.

    The last is written where all rivals have run, or where those that have run already keep it from its bar: more rivals
    can only lower it.
    The accuracy within a budget is that of the best point that costs no more. Seeds are averaged before they are compared.
    """
    made: dict[str, Figure] = {}
    for model, parts in found.items():
        own = [part["points"] for name, part in parts.items() if name.startswith("joint-")]
        tpe = [part["points"] for name, part in parts.items() if name.startswith("tpe-")]
        others = {name: [parts[name]["points"]] for name in map("rival-{}".format, RIVALS) if name in parts}
        if not own or not tpe:
            continue
        own_volume, other_volume = (statistics.mean(volume(one, LOW[0]) for one in runs) for runs in (own, tpe))
        ratio = own_volume / other_volume
        made[f"hypervolume_vs_joint_tpe.{model}"] = Figure(ratio, "higher", 1.0, "ratio")
        least = min(lead_by_budget(own, {"tpe": tpe}).values())
        made[f"points_over_joint_tpe.{model}"] = Figure(least, "higher", None, "points")
        least = min(lead_by_budget(own, {"tpe": tpe, **others}).values())
        if len(others) == len(RIVALS) or least < LEAD:
            made[f"points_over_best_rival.{model}"] = Figure(least, "higher", LEAD, "points")
    return made


def lead_by_budget(own: list[Points], others: dict[str, list[Points]]) -> dict[float, float]:
    """Points of accuracy over the best rival at each budget, means over seeds."""
    leads = {}
    for budget in BUDGETS:
        best = max(statistics.mean(within(points, budget) for points in runs) for runs in others.values())
        leads[budget] = 100 * (statistics.mean(within(points, budget) for points in own) - best)
    return leads


def within(points: Points, budget: float) -> float:
    """The accuracy for a budget: the best point of a hard budget up to it; 0 where there is none."""
    hard = [
        point["accuracy"] for name, point in points.items() if not name.startswith("mean") and float(name) <= budget
    ]
    return max(hard, default=0.0)
