"""Ours: teach a predictor from a table of measured KL, without the straight-through gradient and its bias.

Some shapes ("anchors") are measured on every sample at a budget drawn for it; then the predictor learns to choose so
that the *expected* KL of its choice is least:

    min_theta  mean_s  sum_k softmax(logits_theta(s))_k KL[s, k]

Dropping is real in every entry, each sample's schedule meets its budget, and the language model runs no backward pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.search.batch import Batch
from vispco.search.halving import kl_of
from vispco.search.objective import Objective
from vispco.search.observation import Observation, join
from vispco.search.predictor import Predictor

GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, fill an interval evenly however many there are


@dataclass(frozen=True, eq=False)
class Table:
    """observation of N rows, budget [N], kl [N, K]: how each anchor does on each row."""

    observation: Observation
    budget: Tensor
    kl: Tensor

    def __len__(self) -> int:
        return len(self.budget)

    def take(self, index: Tensor) -> Table:
        return replace(self, observation=self.observation.take(index), budget=self.budget[index], kl=self.kl[index])

    def to(self, device: torch.device | str) -> Table:
        return Table(self.observation.to(device), self.budget.to(device), self.kl.to(device))

    @property
    def best_static(self) -> float:
        """Mean KL of the one anchor that is best for all rows."""
        return float(self.kl.mean(0).min())

    @property
    def oracle(self) -> float:
        """Mean KL if each row had its own best anchor."""
        return float(self.kl.min(-1).values.mean())


def choose_anchors(measured: Tensor, size: int) -> list[int]:
    """The `size` shapes that serve best together, some samples preferring one and some another.

    measured: KL [N, M] of N shapes on M samples (at several budgets). Greedy: each next anchor lowers the mean over
    samples of the best anchor's KL the most. (What a set saves is submodular, so greedy is within 1 - 1/e of the best.)
    """
    chosen: list[int] = []
    best = torch.full((measured.shape[1],), torch.inf)
    for _ in range(min(size, len(measured))):
        left = torch.minimum(measured, best).mean(-1)
        left[chosen] = torch.inf
        chosen.append(int(left.argmin()))
        best = torch.minimum(best, measured[chosen[-1]])
    return chosen


def drawn_budgets(count: int, low: float, high: float = 1.0, *, seed: int = 0) -> Tensor:
    """So many budgets, evenly spread over (low, high) in an order that hops about: float64 [count]."""
    if not 0.0 <= low < high <= 1.0:
        raise InvalidInputError(f"Budgets between {low} and {high} were asked for. Give 0 <= low < high <= 1.")
    place = (torch.arange(1, count + 1, dtype=torch.float64) * GOLDEN + 0.37 * seed) % 1.0
    return low + (high - low) * place


def tabulate(objective: Objective, batches: Sequence[Batch], kernel: Kernel, anchors: Tensor, budgets: Tensor) -> Table:
    """Measure anchors [K, P] on all samples; batch b at the budgets budgets[b] ([batches, R], R drawn for each)."""
    rows: list[tuple[Observation, Tensor, Tensor]] = []
    for batch, drawn in zip(batches, budgets, strict=True):
        for budget in drawn.tolist():
            kl = kl_of(objective, batch, kernel, anchors, budget)
            drawn_here = torch.full((len(batch),), budget, dtype=torch.float64)
            rows.append((batch.observation.to("cpu"), drawn_here, kl.T.cpu()))
    observations, drawn_all, kls = zip(*rows, strict=True)
    return Table(join(list(observations)), torch.cat(drawn_all), torch.cat(kls))


@dataclass(frozen=True)
class Fit:
    """How a predictor is taught from a table. held_out: the share of rows by which the best epoch is chosen."""

    epochs: int = 60
    rows: int = 128  # per step
    rate: float = 1e-3
    decay: float = 0.05
    held_out: float = 0.15
    seed: int = 0


@dataclass(frozen=True)
class Fitted:
    """Mean KL on the held-out rows: of the best single anchor, of the predictor's choice, of the oracle."""

    static: float
    predictor: float
    oracle: float
    epoch: int


def fit(predictor: Predictor, table: Table, anchors: Tensor, plan: Fit | None = None) -> Fitted:
    """Teach a predictor to choose among anchors [K, P]; it is left at the epoch that did best on held-out rows."""
    plan = plan or Fit()
    predictor.anchors.copy_(anchors)
    generator = torch.Generator().manual_seed(plan.seed)
    order = torch.randperm(len(table), generator=generator)
    away = max(1, round(plan.held_out * len(table)))
    train, held = table.take(order[away:]), table.take(order[:away])
    steps = max(1, -(-len(train) // plan.rows))
    optimizer = torch.optim.AdamW(predictor.parameters(), plan.rate, weight_decay=plan.decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, plan.rate, total_steps=plan.epochs * steps, pct_start=0.1)
    best, kept, at = torch.inf, {k: v.clone() for k, v in predictor.state_dict().items()}, -1
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(plan.seed)
        for epoch in range(plan.epochs):
            predictor.train()
            shuffled = torch.randperm(len(train), generator=generator)
            for start in range(0, len(train), plan.rows):
                part = train.take(shuffled[start : start + plan.rows]).to(predictor.device)
                optimizer.zero_grad()
                torch.autograd.backward(expected_kl(predictor, part))
                optimizer.step()
                schedule.step()
            now = chosen_kl(predictor, held)
            if now < best:
                best, at = now, epoch
                kept = {k: v.clone() for k, v in predictor.state_dict().items()}
    predictor.load_state_dict(kept)
    predictor.eval()
    static = float(held.kl[:, train.kl.mean(0).argmin()].mean())
    return Fitted(static, best, held.oracle, at)


def expected_kl(predictor: Predictor, table: Table) -> Tensor:
    """Mean over rows of the KL that the predictor's distribution over anchors expects; differentiable."""
    logits = predictor(table.observation, table.budget).logits
    expected: Tensor = (logits.softmax(-1) * table.kl).sum(-1).mean()
    return expected


@torch.no_grad()
def chosen_kl(predictor: Predictor, table: Table) -> float:
    """Mean KL of the anchors that the predictor takes."""
    predictor.eval()
    table = table.to(predictor.device)
    picked = predictor(table.observation, table.budget).logits.argmax(-1)
    return float(table.kl.gather(1, picked[:, None]).mean())
