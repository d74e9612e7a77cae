"""`Pruner`: a scorer and a schedule, put on a model for the length of a block or until it is removed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from vispco.engine import Engine, EngineOptions, Mode, Planner, Relaxation, TokenPlan, engine_on
from vispco.errors import PrunerStateError
from vispco.families import family_of
from vispco.layout import TokenLayout
from vispco.planning import deployment
from vispco.schedule import Schedule
from vispco.scorers import Chain, ChainLike


class Pruner:
    """Prunes visual tokens inside an unmodified transformers model.

    scorer: which tokens are kept: a scorer's name ('fastv'), a chain of them by depth ('divprune+fastv',
        {0: 'divprune', 3: 'fastv', 20: 'random'}), with options ('sparsevlm(recycle=true)'), or a `Scorer`.
    schedule: how many, as a `Schedule`, or a `Planner` that makes one for each batch.
    mode: 'drop' removes tokens (inference); 'mask' hides them from attention and computes all (search).
    record: keep which visual tokens were live at each layer of the last prefill, in `survivors(model)`.

        with pruner(model):
            model.generate(**inputs)
    """

    def __init__(
        self,
        scorer: ChainLike,
        schedule: Schedule | Planner,
        *,
        mode: Mode = "drop",
        relaxation: Relaxation | None = None,
        record: bool = False,
    ) -> None:
        self.chain = Chain.of(scorer)
        self.schedule, self.mode, self.relaxation, self.record = schedule, mode, relaxation, record

    @property
    def scorer(self) -> Chain:
        """The chain of scorers; a single scorer is a chain of one."""
        return self.chain

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
        options = EngineOptions(self.mode, self.relaxation, self.record)
        Engine(model, self.chain, self._plan, options, owner=self).attach()
        return model

    def remove(self, model: nn.Module) -> nn.Module:
        """Take the pruner off a model."""
        engine = self._engine(model)
        if engine is None:
            raise PrunerStateError(
                f"This pruner is not on this {type(model).__name__}: it was never applied, or removed already."
            )
        engine.detach()
        return model

    def survivors(self, model: nn.Module) -> list[Tensor]:
        """For each layer of this thread's last prefill, the visual tokens that it processed; bool [B, V] each."""
        engine = self._engine(model)
        if engine is None or engine.state.trace is None:
            raise PrunerStateError(
                "Nothing was recorded: make the pruner with record=True, and ask inside the block, after a prefill."
            )
        return engine.state.trace

    def token_counts(self, model: nn.Module) -> Tensor:
        """How many visual tokens each layer of this thread's last prefill processed; int64 [B, L] on the host.

        What was planned, or less where a scorer decides by itself how many stay.
        """
        engine = self._engine(model)
        if engine is None or engine.state.counts is None:
            raise PrunerStateError(
                "No prefill with pictures was run under this pruner. Ask inside the block, after one."
            )
        return engine.state.counts

    def _engine(self, model: nn.Module) -> Engine | None:
        """The engine of this pruner on a model; the model itself knows it."""
        engine = engine_on(family_of(model).base(model))
        return engine if engine is not None and engine.owner is self else None

    def _plan(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        if isinstance(self.schedule, Schedule):
            return TokenPlan(self.schedule.counts(layout.num_visual))
        return self.schedule(layout, embeddings)

    def __repr__(self) -> str:
        kind: Any = "schedule" if isinstance(self.schedule, Schedule) else type(self.schedule).__name__
        return f"Pruner({str(self.chain)!r}, {kind}, mode={self.mode!r})"
