"""`Pruner`: a scorer and a schedule, put on a model for the length of a block or until it is removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

from torch import Tensor, nn

from vispco import scorers
from vispco.engine import Engine, Mode, Plan, Planner
from vispco.engine.masking import Relaxation
from vispco.errors import PrunerStateError
from vispco.layout import TokenLayout
from vispco.planning import deployment
from vispco.schedule import Schedule
from vispco.scorers import Scorer


class Pruner:
    """Prunes visual tokens inside an unmodified transformers model.

    scorer: which tokens are kept, by name ('fastv', 'sparsevlm', 'fitprune', 'random') or as a `Scorer`.
    schedule: how many, as a `Schedule`, or a `Planner` that makes one for each batch.
    mode: 'drop' removes tokens (inference); 'mask' hides them from attention and computes all (search).
    record: keep which visual tokens were live at each layer of the last prefill, in `survivors(model)`.

        with pruner(model):
            model.generate(**inputs)
    """

    def __init__(
        self,
        scorer: str | Scorer,
        schedule: Schedule | Planner,
        *,
        mode: Mode = "drop",
        relaxation: Relaxation | None = None,
        record: bool = False,
    ) -> None:
        self.scorer = scorers.get(scorer)
        self.schedule, self.mode, self.relaxation, self.record = schedule, mode, relaxation, record
        self._engines: WeakKeyDictionary[nn.Module, Engine] = WeakKeyDictionary()

    @classmethod
    def from_pretrained(cls, folder: str | Path, *, budget: float, record: bool = False) -> Pruner:
        """What a search found, at a budget: a fraction of each sample's unpruned language-model FLOPs.

        folder: the directory of a search, or a saved predictor (a folder or a hub id).
        """
        scorer, planner = deployment.load(folder, budget)
        return cls(scorer, planner, record=record)

    @contextmanager
    def __call__(self, model: nn.Module) -> Iterator[nn.Module]:
        """Prune inside the block; the model is as it was afterwards, also after an exception."""
        self.apply(model)
        try:
            yield model
        finally:
            self.remove(model)

    def apply(self, model: nn.Module) -> nn.Module:
        """Prune from now on, until `remove`."""
        engine = Engine(model, self.scorer, self._plan, mode=self.mode, relaxation=self.relaxation, record=self.record)
        try:
            engine.attach()
        except PrunerStateError:
            raise
        except Exception:
            engine.detach()
            raise
        self._engines[model] = engine
        return model

    def remove(self, model: nn.Module) -> nn.Module:
        """Take the pruner off a model."""
        engine = self._engines.pop(model, None)
        if engine is None:
            raise PrunerStateError(
                f"This pruner is not on this {type(model).__name__}: it was never applied, or removed already."
            )
        engine.detach()
        return model

    def survivors(self, model: nn.Module) -> list[Tensor]:
        """For each layer of the last prefill, the visual tokens that it processed; bool [B, V] each."""
        engine = self._engines.get(model)
        if engine is None or engine.trace is None:
            raise PrunerStateError(
                "Nothing was recorded: make the pruner with record=True, and ask inside the block, after a prefill."
            )
        return engine.trace

    def _plan(self, layout: TokenLayout, embeddings: Tensor) -> Plan:
        if isinstance(self.schedule, Schedule):
            return Plan(self.schedule.counts(layout.num_visual))
        return self.schedule(layout, embeddings)

    def __repr__(self) -> str:
        kind: Any = "schedule" if isinstance(self.schedule, Schedule) else type(self.schedule).__name__
        return f"Pruner({self.scorer!r}, {kind}, mode={self.mode!r})"
