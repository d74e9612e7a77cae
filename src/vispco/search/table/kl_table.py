"""Ours: a table of measured KL, from which a predictor learns without the straight-through gradient and its bias.

Some shapes ("anchors") are measured on every sample at a budget drawn for it; then the predictor learns which to choose
(`recall`, `fit`). Dropping is real in every entry, each sample's schedule meets its budget, and the language model runs no backward pass.
Anchors may be meant for a range of budgets only (their `reach`): what is good at 30 % is seldom worth measuring at 70 %.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.planning.observation import Observation, join
from vispco.planning.similarity import alike
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.shapes.halving import kl_tried
from vispco.search.shapes.initial import GOLDEN

MOST = 4096  # rows of like budgets that speak for each other; with more, a network averages by itself


@dataclass(frozen=True, eq=False)
class Table:
    """observation of N rows, budget [N], kl [N, K]: how each anchor does on each row; inf where it is not meant to."""

    observation: Observation
    budget: Tensor
    kl: Tensor
    sample: Tensor | None = None  # [N], which sample a row is of: one that is held out is so at all of its budgets

    def __len__(self) -> int:
        return len(self.budget)

    def take(self, index: Tensor) -> Table:
        sample = None if self.sample is None else self.sample[index]
        return Table(self.observation.take(index), self.budget[index], self.kl[index], sample)

    def to(self, device: torch.device | str) -> Table:
        return replace(
            self, observation=self.observation.to(device), budget=self.budget.to(device), kl=self.kl.to(device)
        )

    def split(self, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Rows to learn from, and the rows of a share of the samples that are held out: two indices."""
        sample = torch.arange(len(self)) if self.sample is None else self.sample
        names = torch.unique(sample)
        away = names[torch.randperm(len(names), generator=generator)][: max(1, round(share * len(names)))]
        held = torch.isin(sample, away)
        return (~held).nonzero()[:, 0], held.nonzero()[:, 0]

    @property
    def bands(self) -> list[tuple[Tensor, list[int]]]:
        """Rows and columns that belong together: those of one range of budgets."""
        groups, place = torch.unique(self.kl.isfinite(), dim=0, return_inverse=True)
        return [((place == n).nonzero()[:, 0], group.nonzero()[:, 0].tolist()) for n, group in enumerate(groups)]

    @property
    def one_for_all(self) -> Tensor:
        """For each row, the anchor of its budget that is best for all rows of such budgets: int64 [N]."""
        measured = self.kl.isfinite()
        mean = self.kl.masked_fill(~measured, 0.0).sum(0) / measured.sum(0)
        best: Tensor = torch.where(measured, mean, torch.inf).argmin(-1)
        return best

    @property
    def in_proportion(self) -> Table:
        """KL in units of that one anchor's: else rows of small budgets drown what can be learned of others."""
        measured = self.kl.isfinite()
        mean = self.kl.masked_fill(~measured, 0.0).sum(0) / measured.sum(0).clamp_min(1)
        return replace(self, kl=self.kl / mean[self.one_for_all].clamp_min(1e-9)[:, None])

    @property
    def smoothed(self) -> Table:
        """Each row's KL as the rows with like instructions tell it, among those of the same range of budgets."""
        kl = self.kl.clone()
        for rows, columns in self.bands:
            if 1 < len(rows) <= MOST:
                kl[rows[:, None], torch.tensor(columns)] = alike(self.observation.take(rows)) @ kl[rows][:, columns]
        return replace(self, kl=kl)

    @property
    def best_static(self) -> float:
        """Mean KL of the one anchor (of each range of budgets) that is best for all rows."""
        return float(self.kl.gather(1, self.one_for_all[:, None]).mean())

    @property
    def oracle(self) -> float:
        """Mean KL if each row had its own best anchor."""
        return float(self.kl.min(-1).values.mean())


def stacked(tables: Sequence[Table]) -> Table:
    """Several tables over the same anchors as one."""
    samples = [t.sample for t in tables if t.sample is not None]
    return Table(
        join([t.observation for t in tables]),
        torch.cat([t.budget for t in tables]),
        torch.cat([t.kl for t in tables]),
        torch.cat(samples) if len(samples) == len(tables) else None,
    )


def drawn_budgets(count: int, ranges: Sequence[tuple[float, float]], *, seed: int = 0) -> Tensor:
    """So many budgets, as many from each range and evenly spread over it, in an order that hops about: float64 [count]."""
    if not all(0.0 <= low < high <= 1.0 for low, high in ranges):
        raise InvalidInputError(f"Budgets from the ranges {list(ranges)} were asked for. Give 0 <= low < high <= 1.")
    place = (torch.arange(1, count + 1, dtype=torch.float64) * GOLDEN + 0.37 * seed) % 1.0
    low, high = torch.tensor([ranges[i % len(ranges)] for i in range(count)], dtype=torch.float64).T
    drawn: Tensor = low + (high - low) * place
    return drawn


def tabulate(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    anchors: Tensor,
    budgets: Tensor,
    reach: Tensor | None = None,
    number: int = 0,
    tell: Callable[[float, str], None] = lambda *_: None,
) -> Table:
    """Measure anchors [K, P] on all samples; batch b at the budgets budgets[b] ([batches, R], R drawn for each).

    reach: [K, 2], the budgets from .. to which each anchor is measured; default: all. number: the first sample's.
    tell: called after each batch with the passes over it, in units of the unpruned one, and what was done.
    """
    rows: list[tuple[Observation, Tensor, Tensor, Tensor]] = []
    seen = number
    for batch, drawn in zip(batches, budgets, strict=True):
        passes = 0.0
        for budget in drawn.tolist():
            every = torch.ones(len(anchors), dtype=torch.bool)
            meant = every if reach is None else (reach[:, 0] <= budget) & (budget < reach[:, 1])
            kl = torch.full((len(batch), len(anchors)), torch.inf)
            kl[:, meant] = kl_tried(objective, batch, kernel, anchors[meant], budget).T.cpu()
            passes += budget * int(meant.sum())
            drawn_here = torch.full((len(batch),), budget, dtype=torch.float64)
            rows.append((batch.observation.to("cpu"), drawn_here, kl, torch.arange(seen, seen + len(batch))))
        seen += len(batch)
        tell(passes, f"table: {seen} samples")
    observations, drawn_all, kls, samples = zip(*rows, strict=True)
    return Table(join(list(observations)), torch.cat(drawn_all), torch.cat(kls), torch.cat(samples))


@dataclass(frozen=True)
class Fitted:
    """Mean KL on rows that were held out: of the best single anchor, of the predictor's choice, of the oracle."""

    static: float
    predictor: float
    oracle: float
