"""The parts of `search.py` about the gradient: does Algorithm 1 converge, and how far is its gradient from the truth?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from search_lab import SCORERS, Lab
from vispco import kernels
from vispco.data import dataset
from vispco.kernels import KERNELS
from vispco.loading import load
from vispco.search import presets
from vispco.search.batch import Batch
from vispco.search.journal import Journal, name_of
from vispco.search.objective import Objective
from vispco.search.prepared import Prepared
from vispco.search.relaxation import GaussianMask
from vispco.search.static import Descent, static_search

FOUR = ("attribute", "counting", "word", "chart")  # one sample of each, to see whether Algorithm 1 converges
BUDGET = 0.5
# The price starts well above the budget, so that the multiplier has something to do.
LONG = Descent(starts=1, outer=12, inner=1, batches=1, explore=6, price=0.8)


def converged(_: Lab | None, cache: Path, name: str, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Scorer / kernel -> how Algorithm 1 with the paper's row ended at a budget of 0.5; searches done before are kept.

    Converged: the price is within the row's epsilon of the budget (the same for every gamma, so also as deployed), and
    the calibration KL of what is deployed is not above that of the start.
    """
    model, processor = load(name, dtype=torch.float32)
    batches = list(Prepared(model, processor, dataset("calibration", tasks=FOUR, limit=1), batch_size=4))
    told, journal = {}, Journal(cache / "converged")
    for scorer in SCORERS:
        for kernel in KERNELS:
            which = f"{scorer}/{kernel}"
            if only and which not in only:
                continue
            row = presets.for_model(model.config, kernel)
            key = name_of(which, row.to_dict(), repr(LONG), *(batch.name for batch in batches))
            if key not in journal:
                journal.enter(key, _driven(model, scorer, kernel, row, batches))
            told[which] = journal[key]
            mark = "" if told[which]["converged"] else "   NOT CONVERGED"
            print(f"    {name}/{which} " + _line(told[which]) + mark, flush=True)
    return told


def _driven(model: Any, scorer: str, kernel: str, row: presets.Preset, batches: list[Batch]) -> dict[str, Any]:
    objective = Objective(model, scorer, relaxation=GaussianMask(row.sigma, row.temperature))
    found = static_search(
        objective,
        batches,
        kernels.get(kernel),
        BUDGET,
        solver="lagrangian",
        settings=row.lagrangian(),
        descent=LONG,
    )
    *path, end = found.history
    last = path[-1]
    price, violation = last["price"][0], last["violation"][0]
    return {
        "converged": max(violation, abs(price - BUDGET)) <= row.epsilon and found.kl <= end["start_kl"],
        "violation": violation,
        "epsilon": row.epsilon,
        "price": price,
        "start_kl": end["start_kl"],
        "kl": found.kl,
        "iterations": len(path),
        "w": last["w"][0],
        "lambda": last["lambda"][0],
    }


def _line(one: dict[str, Any]) -> str:
    return (
        f"violation {one['violation']:.4f} of {one['epsilon']:g}, price {one['price']:.4f}, "
        f"KL {one['start_kl']:.4g} -> {one['kl']:.4g}, {one['iterations']} iterations"
    )


def _alone() -> None:
    """`python benchmarks/search_static.py tiny-gemma [fastv/linear ...]`: the convergence of one model alone."""
    import sys
    import warnings

    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    cache = Path("runs/bench-search")
    told = converged(None, cache, sys.argv[1], tuple(sys.argv[2:]))
    print(f"{sum(one['converged'] for one in told.values())} of {len(told)} converged")


if __name__ == "__main__":
    _alone()
