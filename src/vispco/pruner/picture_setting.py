"""`PictureSetting`: how pictures reach the language model: the pixels with which they enter, and a cut inside the tower."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from torch import Tensor, nn

from vispco.core.cut_layout import CutLayout
from vispco.core.layout import TokenLayout
from vispco.core.pixels import check_pixels
from vispco.core.schedule import Schedule
from vispco.engine.tower_cut import RECORD, TowerCut, TowerSetting
from vispco.families import family_of
from vispco.scorers import Chain


@dataclass(frozen=True)
class PictureSetting:
    """pixels: the share of its pixels with which a picture enters. cut: inside the vision tower; None where it is whole."""

    pixels: float = 1.0
    cut: TowerSetting | None = None

    def __post_init__(self) -> None:
        check_pixels(self.pixels)

    @classmethod
    def cut_at(cls, scorer: str, block: int, keep: float, num_blocks: int) -> Self:
        """A share of the cells stays from a block on."""
        retention = Schedule.stages({block: keep}, num_blocks, "Block").retention
        return cls(1.0, TowerSetting(Chain.of(f"{scorer}@tower.{block}"), retention))  # type: ignore[arg-type]

    @property
    def is_whole(self) -> bool:
        """Whether the tower sees whole pictures and keeps all of them."""
        return self.pixels == 1.0 and self.cut is None

    @property
    def retention(self) -> tuple[float, ...] | None:
        """Before each block of the tower; see `Schedule.tower`."""
        return None if self.cut is None else self.cut.retention

    @property
    def name(self) -> str:
        """For people: 'divprune@tower.2 keeps 50%', '50% of the pixels'."""
        parts = [] if self.pixels == 1.0 else [f"{self.pixels:.0%} of the pixels"]
        if self.cut is not None:
            scorers = "+".join(f"{scorer.name}@tower.{block}" for block, scorer in self.cut.chain.tower)
            parts.append(f"{scorers} keeps {self.cut.retention[-1]:.0%}")
        return ", ".join(parts) or "the whole tower"

    def check(self, model: nn.Module) -> None:
        """Raise if the model's tower cannot be cut like this."""
        if self.cut is not None:
            TowerCut(family_of(model), model, self.cut)

    def join(self, chain: Chain) -> Chain:
        """A chain of the language model with this one's part inside the tower."""
        return chain if self.cut is None else replace(chain, tower=self.cut.chain.tower)

    def layout(self, model: nn.Module, inputs: Mapping[str, Any], answers: Tensor | None = None) -> TokenLayout:
        """The layout of a batch whose features were encoded in this way: what enters the language model."""
        found = family_of(model).layout(model, inputs, answers=answers, pixels=self.pixels)
        outputs = (inputs.get("mm_encoder_outputs") or {}).values()
        records = [getattr(output, RECORD).values for output in outputs if self.cut is not None and output is not None]
        if self.cut is None or not records:
            return found
        passed, spent = (torch.cat([each[name] for each in records]).cpu().numpy() for name in ("passed", "spent"))
        return CutLayout.of(found, passed, len(self.cut.retention), spent, rebuilt=self.cut.chain.rebuilds)

    def to_dict(self) -> dict[str, Any]:
        cut = None if self.cut is None else {"chain": self.cut.chain.to_dict(), "retention": self.cut.retention}
        return {"pixels": self.pixels, "cut": cut}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        cut = data.get("cut")
        own = None if cut is None else TowerSetting(Chain.of(cut["chain"]), tuple(cut["retention"]))
        return cls(float(data.get("pixels", 1.0)), own)


def tower_spent(layout: TokenLayout) -> Any:
    """FLOPs of each sample's tower as it ran: int64 [B] on the host."""
    return layout.spent if isinstance(layout, CutLayout) else layout.tower_flops
