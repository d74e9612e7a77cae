"""The parts of `search.py` about the gradient: does Algorithm 1 converge, and how far is its gradient from the truth?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch

from search_lab import SCORERS, Lab
from vispco import kernels
from vispco.data import dataset
from vispco.kernels import KERNELS
from vispco.models.loading import load
from vispco.search import presets
from vispco.search.batch import Batch
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.gradient.static import DescentSettings, static_search
from vispco.search.objective import Objective, frozen
from vispco.search.search_journal import SearchJournal, work_key

FOUR = ("attribute", "counting", "word", "chart")  # one sample of each, to see whether Algorithm 1 converges
BUDGET = 0.5
# The price starts well above the budget, so that the multiplier has something to do.
LONG = DescentSettings(batches=1, explore=6, price=0.8, gamma=(1.0, 10.0))


def converged(_: Lab | None, cache: Path, name: str, only: tuple[str, ...] = ()) -> dict[str, Any]:
    """Scorer / kernel -> how Algorithm 1 with the paper's row ended at a budget of 0.5; searches done before are kept.

    Converged: the price is within the row's epsilon of the budget (the same for every gamma, so also as deployed), and
    the calibration KL of what is deployed is not above that of the start.
    """
    model, processor = load(name, dtype=torch.float32)
    batches = list(CalibrationBatches(model, processor, dataset("calibration", tasks=FOUR, limit=1), batch_size=4))
    told, journal = {}, SearchJournal(cache / "converged")
    for scorer in SCORERS:
        for kernel in KERNELS:
            which = f"{scorer}/{kernel}"
            if only and which not in only:
                continue
            row = presets.for_model(model.config, kernel)
            key = work_key(which, row.to_dict(), repr(LONG), *(batch.name for batch in batches))
            if key not in journal:
                journal.add(key, _driven(model, scorer, kernel, row, batches))
            told[which] = journal[key]
            mark = "" if told[which]["converged"] else "   NOT CONVERGED"
            print(f"    {name}/{which} " + _line(told[which]) + mark, flush=True)
    return told


def _driven(model: Any, scorer: str, kernel: str, row: presets.SearchPreset, batches: list[Batch]) -> dict[str, Any]:
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


SIGMAS, TEMPERATURES = (1.0, 10.0), (0.1, 0.3, 1.0)
APART = 0.1  # how far the two retentions of a difference are from the middle one


def bias(lab: Lab, _: Path) -> dict[str, Any]:
    """The paper's gradient in the retention of a single step, against differences of the true objective.

    For each layer and retention: d KL / d r as the relaxation gives it, and (KL(r + d) - KL(r - d)) / 2 d by real
    dropping. Told for each sigma and T: how often the sign agrees, the correlation, the ratio of sizes; how often two
    batches' gradients agree in sign; and, under `truth`, how often the differences of two batches do, which no
    estimate from one batch can beat.
    """
    points = [(layer, r) for layer in range(1, lab.L, 2) for r in (0.2, 0.4, 0.6)]
    halves = lab.calibration[:2]
    true = np.stack([_differences(lab, batch, points) for batch in halves])
    told: dict[str, Any] = {
        "points": points,
        "samples": sum(map(len, halves)),
        "truth": {"same_sign_between_batches": _agreement(*true), "mean": true.mean(0).tolist()},
    }
    for even, sigma in ((True, 1.0), *((False, sigma) for sigma in SIGMAS)):
        for temperature in TEMPERATURES:
            name = f"even, T {temperature:g}" if even else f"sigma {sigma:g}, T {temperature:g}"
            objective = Objective(lab.model, lab.scorer, relaxation=GaussianMask(sigma, temperature, even=even))
            own = np.stack([_gradients(objective, batch, points, lab.L) for batch in halves])
            a, b = own.mean(0), true.mean(0)
            told[name] = {
                "same_sign": _agreement(a, b),
                "correlation": float(np.corrcoef(a, b)[0, 1]),
                "rank_correlation": float(np.corrcoef(a.argsort().argsort(), b.argsort().argsort())[0, 1]),
                "size": float(np.abs(a).mean() / np.abs(b).mean()),
                "same_sign_between_batches": _agreement(*own),
                "mean": a.tolist(),
            }
            shown = {k: round(v, 3) for k, v in told[name].items() if k != "mean"}
            print("   ", name, shown, flush=True)
    return told


def _agreement(a: np.ndarray, b: np.ndarray) -> float:
    return float((np.sign(a) == np.sign(b)).mean())


def _curve(layer: int, r: torch.Tensor, num_layers: int) -> torch.Tensor:
    return torch.cat([torch.ones(layer, dtype=torch.float64), r.expand(num_layers - layer)])


def _differences(lab: Lab, batch: Batch, points: list[tuple[int, float]]) -> np.ndarray:
    ends = [
        _curve(layer, torch.tensor(r + d, dtype=torch.float64), lab.L) for layer, r in points for d in (APART, -APART)
    ]
    kl = lab.tried([batch], torch.stack(ends), lab.judge)[:, 2]
    return np.asarray((kl[::2] - kl[1::2]) / (2 * APART))


def _gradients(objective: Objective, batch: Batch, points: list[tuple[int, float]], num_layers: int) -> np.ndarray:
    own = []
    with frozen(objective.model):
        for layer, r in points:
            height = torch.tensor(r, dtype=torch.float64, requires_grad=True)
            kl = objective.relaxed_kl(batch, _curve(layer, height, num_layers).expand(len(batch), -1)).mean()
            own.append(float(torch.autograd.grad(kl, height)[0]))
    return np.array(own)


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
