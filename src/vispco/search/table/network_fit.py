"""Fit the predictor's own layers to a table, so that the expected KL of their choice is least:

min_theta  mean_s  sum_k softmax(logits_theta(s))_k KL[s, k]
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.core.errors import UnknownNameError
from vispco.pruner.predictor import Predictor
from vispco.search.table.kl_table import Anchors, HeldOutKl, KlTable

METHODS = ("memory", "network")


@dataclass(frozen=True)
class FitSettings:
    """How a predictor is fitted to a table.

    method: 'memory' stores the calibration samples (`memory_fit`) and uses none of the numbers below; 'network' trains
    the predictor's own layers. held_out: the share of samples that decides whether the network's choice is used.
    entropy: weight of the entropy in `expected_kl`, in units of the best static anchor's KL.
    """

    method: str = "memory"
    epochs: int = 20
    rows: int = 128  # per step
    rate: float = 1e-3
    decay: float = 0.1
    held_out: float = 0.15
    entropy: float = 0.1
    seed: int = 0

    def __post_init__(self) -> None:
        if self.method not in METHODS:
            raise UnknownNameError("method", self.method, list(METHODS))


def fit_network(
    predictor: Predictor, table: KlTable, anchors: Anchors, settings: FitSettings | None = None
) -> HeldOutKl:
    """Train a predictor to choose among anchors; where it does worse on held-out rows, it takes the best static one."""
    settings = settings or FitSettings()
    predictor.anchors.copy_(anchors.params)
    predictor.budget_range.copy_(anchors.budget_range)
    generator = torch.Generator().manual_seed(settings.seed)
    learned, held_out = table.split(settings.held_out, generator)
    train = table.normalised.take(learned).smoothed
    steps = max(1, -(-len(train) // settings.rows))
    optimizer = torch.optim.AdamW(predictor.parameters(), settings.rate, weight_decay=settings.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.rate, total_steps=settings.epochs * steps, pct_start=0.1
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(settings.seed)
        predictor.train()
        for _ in range(settings.epochs):
            shuffled = torch.randperm(len(train), generator=generator)
            for start in range(0, len(train), settings.rows):
                part = train.take(shuffled[start : start + settings.rows]).to(predictor.device)
                optimizer.zero_grad()
                torch.autograd.backward(expected_kl(predictor, part, settings.entropy))
                optimizer.step()
                schedule.step()
    predictor.eval()
    held = table.take(held_out)
    best_static = table.best_static_anchor[held_out]
    _disable_worse_choices(predictor, held, best_static)
    static = float(held.kl.gather(1, best_static[:, None]).mean())
    return HeldOutKl(static, chosen_kl(predictor, held), held.oracle)


@torch.no_grad()
def _disable_worse_choices(predictor: Predictor, held: KlTable, best_static: Tensor) -> None:
    """Where the choice is worse than the best static anchor by a standard error, only that anchor may be chosen."""
    picked = predictor(held.observation.to(predictor.device), held.budget).logits.argmax(-1).cpu()
    for best in best_static.unique():  # type: ignore[no-untyped-call]
        rows = best_static == best
        chosen, static = (held.kl[rows].gather(1, each[rows, None]) for each in (picked, best_static))
        loss = chosen - static
        if loss.mean() > loss.std(unbiased=False) / len(loss) ** 0.5:
            others = held.kl[rows][0].isfinite().to(predictor.device)
            others[best] = False
            predictor.budget_range[others] = 2.0  # above every budget, so it is never chosen


def expected_kl(predictor: Predictor, table: KlTable, entropy: float = 0.0) -> Tensor:
    """Mean over rows of the KL that the predictor's distribution over anchors expects; differentiable.

    entropy: the distribution's entropy, times this, is subtracted. Without it the best static anchor soon has all of the
    probability and nothing more is learned; with it the optimum is softmax(-KL / entropy).
    """
    logs = predictor(table.observation, table.budget).logits.log_softmax(-1)
    finite = table.kl.masked_fill(table.kl.isinf(), 0.0)  # where the predictor's probability is 0
    expected: Tensor = (logs.exp() * (finite + entropy * logs)).sum(-1).mean()
    return expected


@torch.no_grad()
def chosen_kl(predictor: Predictor, table: KlTable) -> float:
    """Mean KL of the anchors that the predictor chooses."""
    predictor.eval()
    table = table.to(predictor.device)
    picked = predictor(table.observation, table.budget).logits.argmax(-1)
    return float(table.kl.gather(1, picked[:, None]).mean())
