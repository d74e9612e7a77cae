"""The samples that the levels of a stage are measured on: those of the rungs, and of the rest the hard ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vispco.pruner.configurations import Configurations
from vispco.pruner.kernel_regression import saturating_loss
from vispco.pruner.observation import Observation, join_observations
from vispco.search.batch import Batch
from vispco.search.calibration_batches import CalibrationBatches, batch_lengths
from vispco.search.joint.chain_objectives import ChainObjectives
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.ranks import Progress, rank_and_size, shared_over_ranks

_NUM_DIFFICULTY_PROBES = 3  # configurations by whose loss samples are hard or easy
_MAX_LOSS = 1.0 - 1e-6  # the saturating loss of an answer that is lost altogether


@dataclass(frozen=True, eq=False)
class StageSamples:
    """The samples of a stage. first: the numbers of those of the rungs, in order. hard: bool [M], of all samples."""

    batches: Sequence[Batch]
    settings: JointSettings
    first: tuple[int, ...]
    hard: Tensor

    @classmethod
    def of(cls, batches: Sequence[Batch], settings: JointSettings) -> StageSamples:
        """Of the first stage: all samples, in their order."""
        lengths, count = batch_lengths(batches), 0
        for length in lengths:
            count += length if count < settings.rungs[-1] else 0
        return cls(batches, settings, tuple(range(count)), torch.ones(sum(lengths), dtype=torch.bool))

    def rung_batches(self) -> Sequence[Batch]:
        """The samples of the rungs as batches."""
        if self.first == tuple(range(len(self.first))):
            return self.batches
        return [self._pick(part) for part in self._parts(self.first)]

    @property
    def remaining(self) -> list[int]:
        """The hard samples that are not in the rungs."""
        known = set(self.first)
        return [number for number in self.hard.nonzero()[:, 0].tolist() if number not in known]

    def measure_remaining(
        self, candidates: ChainObjectives, configurations: Configurations, progress: Progress
    ) -> tuple[Tensor, Observation | None]:
        """KL [n, K] of configurations, each at its own level, on the samples `remaining`.

        Also what a predictor sees of them; None of no samples. Of many ranks, each measures a part of them, and runs vision
        tower and teacher for it.
        """
        ranks = rank_and_size()[1]

        def measure(part: Sequence[int]) -> tuple[Tensor, Observation]:
            batch = self._pick(part)
            kl = torch.empty(len(batch), len(configurations))
            for level in configurations.levels:
                places = (configurations.level == level).nonzero()[:, 0]
                kl[:, places] = candidates.measure(batch, configurations.take(places), level).T
                progress(ranks * level * len(places) * len(batch), f"table: up to sample {1 + max(part)}")
            return kl, batch.observation.to("cpu")

        measured = shared_over_ranks(self._parts(self.remaining), measure, candidates.objective)
        if not measured:
            return torch.empty(0, len(configurations)), None
        return torch.cat([kl for kl, _ in measured]), join_observations([seen for _, seen in measured])

    def as_table(self, first: Tensor, remaining: Tensor) -> Tensor:
        """KL of the rungs [n, K] and of the samples `remaining` as one table [M, K], infinite elsewhere."""
        kl = torch.full((len(self.hard), first.shape[1]), torch.inf)
        kl[list(self.first)] = first
        kl[self.remaining] = remaining
        return kl

    def after(self, kl: Tensor) -> StageSamples:
        """Of the next stage, from the KL [M, K] at the highest level of this one: the hard samples, mixed, then probes.

        Samples that cannot be put together anew (batches that were made elsewhere) stay as they are.
        """
        if not isinstance(self.batches, CalibrationBatches):
            return self
        settings = self.settings
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
        return replace(self, settings=own, first=(*first, *probes), hard=hard)

    def _parts(self, numbers: Sequence[int]) -> list[Sequence[int]]:
        """Numbers of samples in parts of at most the size of a batch, in their order."""
        width = max(batch_lengths(self.batches))
        return [numbers[start : start + width] for start in range(0, len(numbers), width)]

    def _pick(self, numbers: Sequence[int]) -> Batch:
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
