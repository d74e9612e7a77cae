"""Teach the predictor's own layers from a table, so that the *expected* KL of their choice is least:

min_theta  mean_s  sum_k softmax(logits_theta(s))_k KL[s, k]
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.errors import UnknownNameError
from vispco.planning.predictor import Predictor
from vispco.search.table.kl_table import Fitted, Table

WAYS = ("recall", "network")


@dataclass(frozen=True)
class Fit:
    """How a predictor is taught from a table.

    way: 'recall' remembers the calibration samples (`recall`), and needs none of the numbers below; 'network' trains the
    predictor's own layers. held_out: the share of samples that say whether a network's choice is worth it.
    """

    way: str = "recall"

    epochs: int = 20
    rows: int = 128  # per step
    rate: float = 1e-3
    decay: float = 0.1
    held_out: float = 0.15
    openness: float = 0.1  # see `expected_kl`; in units of the best static shape's KL
    seed: int = 0

    def __post_init__(self) -> None:
        if self.way not in WAYS:
            raise UnknownNameError("way", self.way, list(WAYS))


def fit(
    predictor: Predictor, table: Table, anchors: Tensor, plan: Fit | None = None, reach: Tensor | None = None
) -> Fitted:
    """Teach a predictor to choose among anchors [K, P]; where held-out rows are worse for it, it takes one."""
    plan = plan or Fit()
    predictor.anchors.copy_(anchors)
    if reach is not None:
        predictor.reach.copy_(reach)
    generator = torch.Generator().manual_seed(plan.seed)
    learned, away = table.split(plan.held_out, generator)
    scaled = table.in_proportion
    train = scaled.take(learned).smoothed
    steps = max(1, -(-len(train) // plan.rows))
    optimizer = torch.optim.AdamW(predictor.parameters(), plan.rate, weight_decay=plan.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, plan.rate, total_steps=plan.epochs * steps, pct_start=0.1)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        predictor.train()
        for _ in range(plan.epochs):
            shuffled = torch.randperm(len(train), generator=generator)
            for start in range(0, len(train), plan.rows):
                part = train.take(shuffled[start : start + plan.rows]).to(predictor.device)
                optimizer.zero_grad()
                torch.autograd.backward(expected_kl(predictor, part, plan.openness))
                optimizer.step()
                schedule.step()
    predictor.eval()
    held = table.take(away)
    _unlearned(predictor, held, table.one_for_all[away])
    static = float(held.kl.gather(1, table.one_for_all[away, None]).mean())
    return Fitted(static, chosen_kl(predictor, held), held.oracle)


@torch.no_grad()
def _unlearned(predictor: Predictor, held: Table, one_for_all: Tensor) -> None:
    """Where the choice does worse than the one best anchor on held-out rows, by a standard error, only that is left."""
    picked = predictor(held.observation.to(predictor.device), held.budget).logits.argmax(-1).cpu()
    for best in one_for_all.unique():  # type: ignore[no-untyped-call]
        rows = one_for_all == best
        own, static = (held.kl[rows].gather(1, each[rows, None]) for each in (picked, one_for_all))
        loss = own - static
        if loss.mean() > loss.std(unbiased=False) / len(loss) ** 0.5:
            others = held.kl[rows][0].isfinite().to(predictor.device)
            others[best] = False
            predictor.reach[others] = 2.0  # no budget is as high


def expected_kl(predictor: Predictor, table: Table, openness: float = 0.0) -> Tensor:
    """Mean over rows of the KL that the predictor's distribution over anchors expects; differentiable.

    openness: times the distribution's entropy is taken off. Without it, the one best anchor soon has all probability and
    nothing more is learned; with it, the optimum is softmax(-KL / openness).
    """
    logs = predictor(table.observation, table.budget).logits.log_softmax(-1)
    finite = table.kl.masked_fill(table.kl.isinf(), 0.0)  # where the predictor's probability is 0
    expected: Tensor = (logs.exp() * (finite + openness * logs)).sum(-1).mean()
    return expected


@torch.no_grad()
def chosen_kl(predictor: Predictor, table: Table) -> float:
    """Mean KL of the anchors that the predictor takes."""
    predictor.eval()
    table = table.to(predictor.device)
    picked = predictor(table.observation, table.budget).logits.argmax(-1)
    return float(table.kl.gather(1, picked[:, None]).mean())
