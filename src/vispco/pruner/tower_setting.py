"""`TowerSetting`: how pictures reach the language model, by the pixels with which they enter and the cuts inside the tower."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from vispco.core.layout import TokenLayout
from vispco.core.pixels import check_pixels
from vispco.core.schedule import Schedule
from vispco.engine.tower_cut import RECORD, TowerCut
from vispco.families import family_of
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain


@dataclass(frozen=True)
class TowerSetting:
    """pixels: the share of its pixels with which a picture enters. chain: its part inside the tower cuts it, by `retention`
    before each block; both None where the tower is not cut.
    """

    pixels: float = 1.0
    chain: Chain | None = None
    retention: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        check_pixels(self.pixels)

    @classmethod
    def cut(cls, scorer: str, block: int, keep: float, num_blocks: int) -> Self:
        """A share of the cells stays from a block on."""
        retention = Schedule.stages({block: keep}, num_blocks).retention
        return cls(1.0, Chain.of(f"{scorer}@tower.{block}"), retention)  # type: ignore[arg-type]

    @classmethod
    def of(cls, candidate: Any, chain: Chain | None = None) -> Self:
        """That of a pruner, or of a schedule or planner under a chain; of anything else, whole pictures and tower."""
        tower = getattr(getattr(candidate, "schedule", candidate), "tower", None)
        own = candidate.chain if isinstance(candidate, Pruner) else chain
        pixels = candidate.pixels if isinstance(candidate, Pruner) else 1.0
        return cls(pixels, None if tower is None else own, tower)

    @property
    def is_whole(self) -> bool:
        """Whether the tower sees whole pictures and keeps all of them."""
        return self.pixels == 1.0 and self.retention is None

    @property
    def key(self) -> tuple[Any, ...]:
        """Settings with the same key give the same features."""
        return self.pixels, self.retention, None if self.chain is None else self.chain.tower

    @property
    def name(self) -> str:
        """For people: 'divprune@tower.2 keeps 50%', '50% of the pixels'."""
        parts = [] if self.pixels == 1.0 else [f"{self.pixels:.0%} of the pixels"]
        if self.retention is not None and self.chain is not None:
            scorers = "+".join(f"{scorer.name}@tower.{block}" for block, scorer in self.chain.tower)
            parts.append(f"{scorers} keeps {self.retention[-1]:.0%}")
        return ", ".join(parts) or "the whole tower"

    def join(self, chain: Chain) -> Chain:
        """A chain of the language model with this one's part inside the tower."""
        return chain if self.chain is None else replace(chain, tower=self.chain.tower)

    @contextmanager
    def on(self, model: nn.Module) -> Iterator[None]:
        """Cut the tower inside the block, for features that are encoded beforehand."""
        if self.retention is None or self.chain is None:
            yield
            return
        cut = TowerCut(family_of(model), model, self.chain, self.retention, self.pixels)
        cut.install()
        try:
            yield
        finally:
            cut.remove()

    def layout(self, model: nn.Module, inputs: Mapping[str, Any], answers: Tensor | None = None) -> TokenLayout:
        """The layout of a batch whose features were encoded in this way, or whose pixels will be: what enters the language model."""
        family = family_of(model)
        found = family.layout(model, inputs, answers=answers, pixels=self.pixels)
        outputs = (inputs.get("mm_encoder_outputs") or {}).values()
        records = [getattr(output, RECORD, None) for output in outputs if output is not None]
        if self.retention is None or not records:
            return found
        passed, spent = (
            torch.cat([record.values[name] for record in records]).cpu().numpy() for name in ("passed", "spent")
        )
        return found.entering(passed, len(self.retention), spent)

    def to_dict(self) -> dict[str, Any]:
        chain = None if self.chain is None else self.chain.to_dict()
        return {"pixels": self.pixels, "chain": chain, "retention": self.retention}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        chain, retention = data.get("chain"), data.get("retention")
        return cls(
            float(data.get("pixels", 1.0)),
            None if chain is None else Chain.of(chain),
            None if retention is None else tuple(retention),
        )
