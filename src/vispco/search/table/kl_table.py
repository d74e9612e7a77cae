"""A table of measured KL: anchors (kernel shapes) on samples, each at a budget. A predictor is fitted to it.

Every entry is measured with tokens really dropped, and every sample meets its budget. So the fit does not depend on the
straight-through gradient and its bias, and the language model runs no backward pass. An anchor is measured only at
budgets in its range: a shape that is good at 30 % is rarely worth measuring at 70 %.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.pruner.observation import Observation, join_observations
from vispco.pruner.sample_features import leave_one_out_weights
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.ranks import MeasuringJob, Progress, measure_jobs
from vispco.search.shapes.initial import GOLDEN

MAX_SMOOTHED = 4096  # with more rows of one budget group than this, smoothing is not needed


@dataclass(frozen=True, eq=False)
class Anchors:
    """params: [K, P]. budget_range: [K, 2], the budgets (from, to) at which each anchor may be chosen."""

    params: Tensor
    budget_range: Tensor

    @classmethod
    def for_all_budgets(cls, params: Tensor) -> Anchors:
        return cls(params, torch.tensor([[-1.0, 2.0]], dtype=torch.float64).repeat(len(params), 1))

    def __len__(self) -> int:
        return len(self.params)

    def take(self, index: Sequence[int]) -> Anchors:
        return Anchors(self.params[index], self.budget_range[index])

    def in_range(self, budget: float) -> Tensor:
        """The anchors that may be chosen at a budget: bool [K]."""
        return (self.budget_range[:, 0] <= budget) & (budget < self.budget_range[:, 1])


@dataclass(frozen=True, eq=False)
class KlTable:
    """N rows, each a sample at a budget: observation of N rows, budget [N], kl [N, K]; inf where an anchor is not in range.

    sample: [N], the sample's number; a sample is held out at all of its budgets. None: each row is a sample of its own.
    """

    observation: Observation
    budget: Tensor
    kl: Tensor
    sample: Tensor | None = None

    def __len__(self) -> int:
        return len(self.budget)

    def take(self, index: Tensor) -> KlTable:
        sample = None if self.sample is None else self.sample[index]
        return KlTable(self.observation.take(index), self.budget[index], self.kl[index], sample)

    def to(self, device: torch.device | str) -> KlTable:
        return replace(
            self, observation=self.observation.to(device), budget=self.budget.to(device), kl=self.kl.to(device)
        )

    def split(self, share: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
        """Indices of the rows to learn from, and of the rows of a share of the samples that are held out."""
        sample = torch.arange(len(self)) if self.sample is None else self.sample
        numbers = torch.unique(sample)
        held_out = numbers[torch.randperm(len(numbers), generator=generator)][: max(1, round(share * len(numbers)))]
        held = torch.isin(sample, held_out)
        return (~held).nonzero()[:, 0], held.nonzero()[:, 0]

    @property
    def budget_groups(self) -> list[tuple[Tensor, list[int]]]:
        """Rows and columns that belong together: the rows at which the same anchors were measured."""
        groups, row_group = torch.unique(self.kl.isfinite(), dim=0, return_inverse=True)
        return [((row_group == n).nonzero()[:, 0], group.nonzero()[:, 0].tolist()) for n, group in enumerate(groups)]

    @property
    def best_static_anchor(self) -> Tensor:
        """For each row, the anchor in range that has the least mean KL over all rows: int64 [N]."""
        measured = self.kl.isfinite()
        mean = self.kl.masked_fill(~measured, 0.0).sum(0) / measured.sum(0)
        best: Tensor = torch.where(measured, mean, torch.inf).argmin(-1)
        return best

    @property
    def normalised(self) -> KlTable:
        """KL in units of the best static anchor's mean: small budgets, which have large KL, do not dominate."""
        measured = self.kl.isfinite()
        mean = self.kl.masked_fill(~measured, 0.0).sum(0) / measured.sum(0).clamp_min(1)
        return replace(self, kl=self.kl / mean[self.best_static_anchor].clamp_min(1e-9)[:, None])

    @property
    def smoothed(self) -> KlTable:
        """Each row's KL replaced by the mean over the other rows of its budget group, weighted by similarity."""
        kl = self.kl.clone()
        for rows, columns in self.budget_groups:
            if 1 < len(rows) <= MAX_SMOOTHED:
                weights = leave_one_out_weights(self.observation.take(rows))
                kl[rows[:, None], torch.tensor(columns)] = weights @ kl[rows][:, columns]
        return replace(self, kl=kl)

    @property
    def best_static(self) -> float:
        """Mean KL if each row takes the best static anchor of its budgets."""
        return float(self.kl.gather(1, self.best_static_anchor[:, None]).mean())

    @property
    def oracle(self) -> float:
        """Mean KL if each row takes its own best anchor."""
        return float(self.kl.min(-1).values.mean())


@dataclass(frozen=True)
class HeldOutKl:
    """Mean KL on rows that were held out: of the best static anchor, of the predictor's choice, of the best choice."""

    static: float
    predictor: float
    oracle: float


def stack_tables(tables: Sequence[KlTable]) -> KlTable:
    """Several tables over the same anchors as one."""
    samples = [t.sample for t in tables if t.sample is not None]
    return KlTable(
        join_observations([t.observation for t in tables]),
        torch.cat([t.budget for t in tables]),
        torch.cat([t.kl for t in tables]),
        torch.cat(samples) if len(samples) == len(tables) else None,
    )


def spread_budgets(count: int, ranges: Sequence[tuple[float, float]], *, seed: int = 0) -> Tensor:
    """Budgets that are spread evenly over each of several ranges, one range after the other in turn: float64 [count]."""
    if not all(0.0 <= low < high <= 1.0 for low, high in ranges):
        raise InvalidInputError(f"Budgets from the ranges {list(ranges)} were asked for. Give 0 <= low < high <= 1.")
    place = (torch.arange(1, count + 1, dtype=torch.float64) * GOLDEN + 0.37 * seed) % 1.0
    low, high = torch.tensor([ranges[i % len(ranges)] for i in range(count)], dtype=torch.float64).T
    budgets: Tensor = low + (high - low) * place
    return budgets


def measure_table(
    objective: Objective,
    batches: Sequence[Batch],
    kernel: Kernel,
    anchors: Anchors,
    budgets: Tensor,
    *,
    first_sample: int = 0,
    progress: Progress = lambda *_: None,
) -> KlTable:
    """Measure anchors on all samples, each batch at its budgets: budgets [batches, R], R for each batch.

    first_sample: the number of the first sample. progress: called after each batch.
    """
    firsts = torch.tensor([first_sample, *map(len, batches)]).cumsum(0).tolist()
    asked = [(n, budget) for n, own in enumerate(budgets.tolist()) for budget in own]
    in_range = [anchors.in_range(budget) for _, budget in asked]
    jobs = [
        MeasuringJob(batches[n], anchors.params[chosen], budget, f"table: {firsts[n + 1]} samples")
        for (n, budget), chosen in zip(asked, in_range, strict=True)
    ]
    rows: list[tuple[Observation, Tensor, Tensor, Tensor]] = []
    measured = measure_jobs(objective, kernel, jobs, progress)
    for (n, budget), chosen, found in zip(asked, in_range, measured, strict=True):
        batch = batches[n]
        kl = torch.full((len(batch), len(anchors)), torch.inf)
        kl[:, chosen] = found
        row_budgets = torch.full((len(batch),), budget, dtype=torch.float64)
        rows.append((batch.observation.to("cpu"), row_budgets, kl, torch.arange(firsts[n], firsts[n + 1])))
    observations, all_budgets, kls, samples = zip(*rows, strict=True)
    return KlTable(join_observations(list(observations)), torch.cat(all_budgets), torch.cat(kls), torch.cat(samples))
