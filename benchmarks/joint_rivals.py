"""The rivals of the joint search, for `joint.py`: TPE over the same space at the same bill, and others at theirs.

Parts, for each model: `tpe-SEED` (TPE over chains and curves, stopped at the bill of the joint search with that seed),
`rival-NAME` for each of `RIVALS`, `single-SCORER` (the predictor search of one scorer), and `selector-NAME` (one selector before
the language model, without a search). Rivals that can be stopped get the bill of the first joint search, the others spend what
they spend. They learn from the same calibration items in the same order, and are judged on the same test items.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from figures import Figure
from vispco import Pruner, cost
from vispco.compare.searches import AnytimeRival, Calibration, get, run_search
from vispco.compare.searches.search_registry import SEARCHES, takes
from vispco.core.errors import BudgetFloorError, NotApplicableError
from vispco.data.dataset import Dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.search.joint.space import single_selectors
from vispco.search.modes import SearchRun, run_mode
from vispco.search.search_spec import BUDGETS, SearchSpec

HARD = (0.18, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 0.9)
RIVALS = ("dop", "vflowopt", "scaled", "evolution", "autoprune", "btp-layers", "downsample")
SINGLE = ("fitprune", "fastv", "sparsevlm")
SELECTORS = ("divprune", "cdpruner")
SCORER = "fastv"  # of the rivals that bring none of their own
SETTINGS = {"vflowopt": {"samples": 128}}
"""What a rival gets in place of its defaults: at this bill 30 samples would mean a Gaussian process over a thousand calls."""
LEVEL = 0.05  # of the test, before it is divided by the number of comparisons
Bill = Callable[[int], float | None]
"""FLOPs of the joint search with a seed; None where it has not run."""


def rival_parts(setup: Callable[[], Any], seeds: int, bill: Bill) -> dict[str, Callable[[], dict[str, Any]]]:
    """All parts by name. setup: the model and the items, as `joint.py` has them."""
    found: dict[str, Callable[[], dict[str, Any]]] = {}
    for name in SELECTORS:
        found[f"selector-{name}"] = lambda name=name: selector(setup(), name)
    for seed in range(seeds):
        found[f"tpe-{seed}"] = lambda seed=seed: rival(setup(), "tpe-joint", seed, bill)
    for name in SINGLE:
        found[f"single-{name}"] = lambda name=name: single(setup(), name)
    for name in RIVALS:
        if name in SEARCHES:
            found[f"rival-{name}"] = lambda name=name: rival(setup(), name, 0, bill)
    return found


def selector(setup: Any, name: str) -> dict[str, Any]:
    """One selector that prunes once before the language model, at every budget."""
    price = cost.get("exact", setup.model.config)
    planners = {str(budget): single_selectors(budget, price)[name] for budget in HARD}
    points = {budget: setup.point(f"{name}-{budget}", Pruner(name, planner)) for budget, planner in planners.items()}
    return {"points": points}


def single(setup: Any, scorer: str) -> dict[str, Any]:
    """The predictor search of one scorer."""
    spec = SearchSpec.of(scorer, mode="predictor", budgets=HARD)
    run = SearchRun.prepare(setup.model, setup.processor, shuffled(setup.calibration, 0), spec)
    outcome = run_mode(run)
    planners = {str(budget): outcome.planner(run, budget) for budget in HARD}
    points = {
        budget: setup.point(
            f"single-{scorer}-{budget}", Pruner(getattr(planner, "chain", None) or run.spec.chain, planner)
        )
        for budget, planner in planners.items()
    }
    return {"points": points, "spent": run.objective.spent.to_dict()}


def rival(setup: Any, name: str, seed: int, bill: Bill) -> dict[str, Any]:
    """One search on one model: the points that it reaches, and its bill."""
    search = get(name, **SETTINGS.get(name, {}), **({"seed": seed} if takes(name, "seed") else {}))
    limit = bill(seed) if isinstance(search, AnytimeRival) else None
    if limit is None and isinstance(search, AnytimeRival):
        raise SystemExit(f"The joint search with seed {seed} has not run on {setup.name}. Run its part first.")
    learned = TaskEvaluator(setup.model, setup.processor, shuffled(setup.calibration, seed), SCORER, batch_size=32)
    budgets = HARD if name == "tpe-joint" else [budget for budget in HARD if budget >= BUDGETS[0]]
    try:
        run = run_search(search, Calibration(learned, measure="kl"), budgets, bill=limit)
    except (NotApplicableError, BudgetFloorError) as error:
        return {"points": {}, "not_run": str(error)}
    judge = TaskEvaluator(
        setup.model, setup.processor, setup.test, SCORER, batch_size=64, store=setup.judge.store, scores=True
    )
    points = {
        f"{budget:g}": {
            "fraction": found.fraction["exact"],
            "accuracy": found.accuracy,
            "scores": {task: list(own) for task, own in found.details["scores"].items()},
        }
        for budget, found in run.evaluate(judge).items()
    }
    return {"points": points, "seconds": run.seconds, "spent": run.spent.to_dict(), "bill": limit}


def shuffled(samples: Dataset, seed: int) -> list[Any]:
    """The samples in an order of their own for each seed: rows of one item of each task, as `vispco search` has them."""
    width = len(samples.tasks)
    rows = torch.randperm(len(samples) // width, generator=torch.Generator().manual_seed(seed)).tolist()
    return [samples[width * row + place] for row in rows for place in range(width)]


def item_means(points: list[dict[str, Any]]) -> np.ndarray:
    """The score of each item, the mean over the seeds of a method at one budget: [items]."""
    rows = [[score for task in sorted(point["scores"]) for score in point["scores"][task]] for point in points]
    return np.array(rows, float).mean(axis=0)


def rival_figures(found: dict[str, dict[str, Any]]) -> dict[str, Figure]:
    """Of each model: at how many budgets a rival is significantly ahead, and the largest lead of any.

    Paired on the same items, each item's score the mean over seeds; the level of the test is divided by the number of
    comparisons of a model.
    """
    made: dict[str, Figure] = {}
    for model, parts in found.items():
        own = [part["points"] for name, part in parts.items() if name.startswith("joint-")]
        rivals: dict[str, list[dict[str, Any]]] = {}
        for name, part in parts.items():
            kind = name.partition("-")[0]
            if kind in ("tpe", "single", "selector", "rival") and part["points"]:
                rivals.setdefault("tpe" if kind == "tpe" else name, []).append(part["points"])
        if not own or not rivals:
            continue
        leads, tests = [], []
        for runs in rivals.values():
            for budget in runs[0]:
                difference = item_means([run[budget] for run in runs]) - item_means([run[budget] for run in own])
                error = difference.std(ddof=1) / math.sqrt(len(difference))
                leads.append(100 * float(difference.mean()))
                tests.append(math.erfc(difference.mean() / max(error, 1e-12) / math.sqrt(2)) if leads[-1] > 0 else 1.0)
        ahead = sum(p < LEVEL / len(tests) for p in tests)
        made[f"rivals_significantly_ahead.{model}"] = Figure(ahead, "lower", 0, "rivals")
        made[f"largest_lead_of_a_rival.{model}"] = Figure(max(leads), "lower", None, "points")
        made[f"comparisons_with_rivals.{model}"] = Figure(len(tests), "higher", None, "comparisons")
    return made
