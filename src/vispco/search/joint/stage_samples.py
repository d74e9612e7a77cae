"""The samples that the levels of a stage are measured on: as many as the first stage gains from, then the hard ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import torch
from torch import Tensor

from vispco.pruner.configurations import Configurations
from vispco.pruner.kernel_regression import saturating_loss
from vispco.pruner.observation import Observation, join_observations
from vispco.search.batch import Batch
from vispco.search.calibration_batches import CalibrationBatches, PickedBatches, batch_lengths
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.ranks import Progress, rank_and_size, shared_over_ranks

_NUM_DIFFICULTY_PROBES = 3  # configurations by whose loss samples are hard or easy
_MAX_LOSS = 1.0 - 1e-6  # the saturating loss of an answer that is lost altogether


@dataclass(frozen=True, eq=False)
class StageSamples:
    """The samples of a stage. first: the numbers of those that are measured, in order. hard: bool [M], of all so far."""

    batches: Sequence[Batch]
    settings: JointSettings
    first: tuple[int, ...]
    hard: Tensor

    @classmethod
    def of(cls, batches: Sequence[Batch], settings: JointSettings) -> StageSamples:
        """Of the first stage: the samples of the rungs, in their order."""
        count = 0
        for length in batch_lengths(batches):
            count += length if count < settings.rungs[-1] else 0
        return cls(batches, settings, tuple(range(count)), torch.ones(count, dtype=torch.bool))

    def rung_batches(self) -> Sequence[Batch]:
        """The samples that are measured as batches, each made when it is asked for."""
        parts = self._parts(self.first)
        return PickedBatches(self.pick, parts, [len(part) for part in parts])

    @property
    def as_many_again(self) -> list[int]:
        """The numbers of the samples that follow, in whole batches: as many as there are, or all that may be taken."""
        count, found = len(self.hard), 0
        for length in batch_lengths(self.batches):
            found += length if found < min(2 * count, self.settings.max_samples) else 0
        return list(range(count, found))

    def measure(
        self, numbers: Sequence[int], candidates: ChainObjectives, configurations: Configurations, progress: Progress
    ) -> tuple[Tensor, Observation]:
        """KL [n, K] of configurations, each at its own level, on samples; also what a predictor sees of these.

        Of many ranks, each measures a part of them, and runs vision tower and teacher for it.
        """
        ranks = rank_and_size()[1]

        def measure(part: Sequence[int]) -> tuple[Tensor, Observation]:
            batch = self.pick(part)
            kl = torch.empty(len(batch), len(configurations))
            for level in configurations.levels:
                places = (configurations.level == level).nonzero()[:, 0]
                kl[:, places] = candidates.measure(batch, configurations.take(places), level).T
                progress(ranks * level * len(places) * len(batch), f"table: up to sample {1 + max(part)}")
            return kl, batch.observation.to("cpu")

        measured = shared_over_ranks(self._parts(numbers), measure, candidates.objective)
        return torch.cat([kl for kl, _ in measured]), join_observations([seen for _, seen in measured])

    def with_samples(self, count: int) -> StageSamples:
        """The same with so many samples in all."""
        return replace(self, first=tuple(range(count)), hard=torch.ones(count, dtype=torch.bool))

    def as_table(self, kl: Tensor) -> Tensor:
        """KL of the samples `first` [n, K] as a table [M, K] of all, infinite elsewhere."""
        table = torch.full((len(self.hard), kl.shape[1]), torch.inf)
        table[list(self.first)] = kl
        return table

    def after(self, kl: Tensor) -> StageSamples:
        """Of the next stage, from the KL [M, K] at the highest level of this one: the hard samples, mixed, then probes.

        Samples that cannot be put together anew (batches that were made elsewhere) are measured whole at every stage.
        """
        settings = self.settings
        if not isinstance(self.batches, CalibrationBatches):
            return replace(self, settings=replace(settings, rungs=(*settings.rungs[:-1], len(self.first))))
        loss = torch.where(kl.isfinite(), saturating_loss(kl), 0.0)
        best = loss.mean(0).argsort()[:_NUM_DIFFICULTY_PROBES]
        loss, order = loss[:, best].mean(-1).sort(descending=True, stable=True)
        held = loss.cumsum(0) - loss < settings.hard_share * loss.sum()  # the samples before it are not the share yet
        held[: settings.rungs[1]] = True
        hard = torch.zeros_like(self.hard)
        hard[order[held]] = True
        mixed = torch.randperm(len(hard), generator=torch.Generator().manual_seed(settings.seed)).tolist()
        first = [number for number in mixed if hard[number]]
        probes = [number for number in mixed if not hard[number]][: settings.easy_samples]
        own = replace(settings, rungs=(*settings.rungs[:2], len(first) + len(probes)))
        ends = (0, *own.rungs)
        rungs = [[*first, *probes][start:end] for start, end in pairwise(ends)]
        areas = self.batches.areas  # empty where samples keep their order
        ordered = [number for rung in rungs for number in sorted(rung, key=lambda each: areas.get(each, 0))]
        return replace(self, settings=own, first=tuple(ordered), hard=hard)

    def _parts(self, numbers: Sequence[int]) -> list[Sequence[int]]:
        """Numbers of samples in parts of at most the size of a batch, in their order."""
        width = max(batch_lengths(self.batches))
        return [numbers[start : start + width] for start in range(0, len(numbers), width)]

    def pick(self, numbers: Sequence[int]) -> Batch:
        """Samples by their numbers as one batch: one of the batches itself where it holds just these."""
        start = 0
        for place, length in enumerate(batch_lengths(self.batches)):
            if tuple(numbers) == tuple(range(start, start + length)):
                return self.batches[place]
            start += length
        assert isinstance(self.batches, CalibrationBatches)  # noqa: S101 - others keep their order, see `after`
        return self.batches.rows(numbers)


def fill_unmeasured(kl: Tensor, hard: Tensor) -> Tensor:
    """KL [M, K] where samples that were not measured lose what the easy ones that were lose in the mean.

    hard: bool [M], the samples that none of these stands for. Losses saturate. The few easy ones say little about each
    configuration, so its mean is shrunk half-way to that of the median one; a configuration that fails them moves no other.
    """
    missing = ~kl.isfinite().all(-1)
    easy = ~missing & ~hard
    if not bool(missing.any()) or not bool(easy.any()):
        return torch.where(missing[:, None], 0.0, kl)
    means = saturating_loss(kl[easy]).mean(0)
    expected = ((means + means.median()) / 2.0).clamp_max(_MAX_LOSS)
    return torch.where(missing[:, None], -torch.log1p(-expected), kl)
