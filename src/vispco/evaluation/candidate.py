"""Candidates of an evaluation: the full model (None), a schedule, a planner or a pruner."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost import Workload
from vispco.engine import Planner, TokenPlan
from vispco.engine.tower_cut import TowerSetting
from vispco.pruner.pruner import Pruner

if TYPE_CHECKING:
    from vispco.core.layout import TokenLayout
    from vispco.evaluation.encoded import Encoded
    from vispco.scorers import Chain

Candidate: TypeAlias = Schedule | Planner | Pruner | None
"""None is the full model. A schedule or a planner is run with the evaluator's own chain of scorers."""


class CandidateRun:
    """One candidate on one model: prunes batch after batch, and knows how many tokens each layer of the last one kept."""

    def __init__(self, candidate: Candidate, chain: Chain, num_layers: int, num_samples: int) -> None:
        self._given = candidate if isinstance(candidate, Pruner) else None
        if isinstance(candidate, Pruner):
            chain, candidate = candidate.chain, candidate.schedule
        candidate = getattr(candidate, "uncontrolled", candidate)  # a result does not depend on the order of the items
        self.chain, self.num_layers = chain, num_layers
        self.plan: Schedule | Planner | None = candidate
        self.pixels = 1.0 if self._given is None else self._given.pixels
        retention = getattr(candidate, "tower", None)
        self.cut = None if retention is None else TowerSetting(chain, retention)  # of the vision tower
        self.counts: Tensor | None = None  # [B, L] of the last batch, as its layers processed them
        self.workload: Workload | None = None  # of the last batch
        self.tower_flops: Tensor | None = None  # of its cut vision tower, int64 [B]; None where it was not cut
        self._rows: Sequence[int] = ()
        if isinstance(candidate, Schedule):
            self._check(candidate, num_samples)
        elif candidate is not None and not callable(candidate):
            raise InvalidInputError(
                f"{candidate!r} was given to evaluate. Give a Schedule, a planner, a Pruner, or None for the full model."
            )

    @property
    def layers_saved(self) -> int:
        """How many layers at most need not be computed where the unpruned run is known; host arithmetic."""
        if self.plan is None:
            return self.num_layers
        if not isinstance(self.plan, Schedule) or self.cut is not None:
            return 0
        rows = self.plan.tensor().view(-1, self.num_layers)
        return first_drop((rows >= 1).long(), [1] * len(rows))

    @contextmanager
    def on(self, model: Any, rows: Sequence[int], encoded: Encoded) -> Iterator[None]:
        """Prune inside a block; `rows` are the places of the batch's samples among all samples."""
        self._rows = rows
        if self.plan is None:
            self.counts = torch.tensor(encoded.num_visual)[:, None].expand(-1, self.num_layers)
            self.workload = Workload(encoded.num_text, encoded.num_visual)
            yield
            return
        if self._given is not None:
            self._given.check(model)
        self.counts, pruner = None, Pruner(self.chain, self._make_plan, pixels=self.pixels)
        pruner.prepared = True  # the evaluator reads pictures for it
        pruner.tower = None if self.cut is None else self.cut.retention
        with pruner(model):
            yield
            self.counts, self.workload = pruner.token_counts(model), pruner.workload(model)
            self.tower_flops = None if self.cut is None else pruner.tower_flops(model)

    def _make_plan(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        if not isinstance(self.plan, Schedule):
            assert self.plan is not None  # noqa: S101 - `on` puts no pruner on the model then
            return self.plan(layout, embeddings)
        plan = self.plan
        if plan.per_sample:
            plan = replace(plan, retention=tuple(plan.retention[row] for row in self._rows))  # type: ignore[arg-type]
        return TokenPlan(plan.counts(layout.whole.num_visual, layout.num_visual))

    def _check(self, schedule: Schedule, num_samples: int) -> None:
        if schedule.num_layers != self.num_layers:
            raise InvalidInputError(
                f"The schedule is for {schedule.num_layers} layers and the model has {self.num_layers}. "
                f"Make it with num_layers={self.num_layers}."
            )
        if schedule.per_sample and schedule.batch_size != num_samples:
            raise InvalidInputError(
                f"The schedule has rows for {schedule.batch_size} samples and {num_samples} are evaluated. "
                "Give one row for each sample, in the order of the samples, or one row for all."
            )


def first_drop(counts: Tensor, num_visual: Sequence[int]) -> int:
    """The first layer that some sample enters with fewer tokens than it has: counts [B, L] -> 0..L (L: none)."""
    pruned = (counts < torch.tensor(num_visual)[:, None]).any(0).nonzero()
    return int(pruned[0]) if len(pruned) else int(counts.shape[1])
