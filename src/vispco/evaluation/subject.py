"""What is evaluated: nothing at all (the full model), a schedule, a planner, or a whole pruner."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor

from vispco.engine import Plan, Planner
from vispco.errors import InvalidInputError
from vispco.evaluation.prefix import first_drop
from vispco.pruner import Pruner
from vispco.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.layout import TokenLayout
    from vispco.scorers import Scorer

Subject: TypeAlias = Schedule | Planner | Pruner | None


class Planned:
    """One subject on one model: prunes batch after batch, and knows how many tokens each layer of the last one kept."""

    def __init__(self, subject: Subject, scorer: Scorer, num_layers: int, num_samples: int) -> None:
        if isinstance(subject, Pruner):
            scorer, subject = subject.scorer, subject.schedule
        self.scorer, self.num_layers = scorer, num_layers
        self.plan: Schedule | Planner | None = subject
        self.counts: Tensor | None = None  # [B, L] of the batch at hand
        self._rows: Sequence[int] = ()
        if isinstance(subject, Schedule):
            self._check(subject, num_samples)
        elif subject is not None and not callable(subject):
            raise InvalidInputError(
                f"{subject!r} was given to evaluate. Give a Schedule, a planner, a Pruner, or None for the full model."
            )

    @property
    def layers_saved(self) -> int:
        """How many layers at most need not be computed where the unpruned run is known; host arithmetic."""
        if self.plan is None:
            return self.num_layers
        if not isinstance(self.plan, Schedule):
            return 0
        rows = self.plan.tensor().view(-1, self.num_layers)
        return first_drop((rows >= 1).long(), [1] * len(rows))

    def on(self, model: Any, rows: Sequence[int], num_visual: Sequence[int]) -> AbstractContextManager[Any]:
        """Prune inside a block; `rows` are the places of the batch's samples among all samples."""
        self._rows = rows
        if self.plan is None:
            self.counts = torch.tensor(num_visual)[:, None].expand(-1, self.num_layers)
            return nullcontext()
        self.counts = None
        return Pruner(self.scorer, self._planned)(model)

    def _planned(self, layout: TokenLayout, embeddings: Tensor) -> Plan:
        if not isinstance(self.plan, Schedule):
            assert self.plan is not None  # noqa: S101 - `on` puts no pruner on the model then
            made = self.plan(layout, embeddings)
        elif self.plan.per_sample:
            own = tuple(self.plan.retention[row] for row in self._rows)
            made = Plan(Schedule(own).counts(layout.num_visual))  # type: ignore[arg-type]
        else:
            made = Plan(self.plan.counts(layout.num_visual))
        self.counts = made.counts
        return made

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
