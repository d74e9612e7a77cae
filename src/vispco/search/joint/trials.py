"""Trials: configurations that are measured at one level, and which of them one batch can carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.pruner.configurations import Configurations
from vispco.pruner.kernel_regression import saturating_loss
from vispco.scorers import Chain

UNMEASURED = torch.empty(0)  # no sample has been measured yet


@dataclass(frozen=True, eq=False)
class Trial:
    """One configuration at a level. counts: [L], its tokens for a sample of the typical size. kl: on the first samples."""

    chain: Chain
    params: Tensor
    counts: Tensor
    rung: int
    kl: Tensor

    @property
    def key(self) -> tuple[Chain, bytes]:
        """Trials with the same key prune the same tokens."""
        return self.chain, self.counts.numpy().tobytes()

    @property
    def loss(self) -> float:
        return float(saturating_loss(self.kl).mean())


@dataclass(frozen=True, eq=False)
class MeasuredConfigurations:
    """Configurations of some levels, and their KL [samples, K] on the first samples."""

    configurations: Configurations
    kl: Tensor

    @staticmethod
    def join(parts: Sequence[MeasuredConfigurations]) -> MeasuredConfigurations:
        """Those of several levels, measured on the same samples."""
        every = Configurations.join([part.configurations for part in parts])
        return MeasuredConfigurations(every, torch.cat([part.kl for part in parts], dim=1))


def first_scorer(chain: Chain) -> str:
    """Which scorer chooses before the language model; empty for chains that begin inside it."""
    return str(chain.scorers[0]) if chain.earliest_layer == 0 else ""


def stage_layers(chain: Chain) -> tuple[int, ...]:
    """The layers from which on each scorer of a chain rules."""
    return tuple(layer for layer, _ in chain.stages)


def same_batch_trials(trials: Sequence[Trial]) -> list[Trial]:
    """Trials that one batch can carry: of those whose tokens leave at one kind of place, the kind of the best one.

    See `vispco.scorers.mixture`. A chain that merges or decides counts by itself is alone.
    """

    def kind(chain: Chain) -> object:
        return chain if chain.merges or chain.decides_count else frozenset(scorer.site for scorer in chain.scorers)

    best = min(trials, key=lambda trial: trial.loss)
    return [trial for trial in trials if kind(trial.chain) == kind(best.chain)]
