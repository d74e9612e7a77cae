"""`Choices`: layers at which a plan drops tokens, and what must be recorded for it; computed once per plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from vispco.engine.layer_map import LayerMap
from vispco.scorers.chain import Chain


@dataclass(frozen=True, eq=False)
class Choices:
    """By layer 0..L-1, on the host.

    falls: the plan keeps fewer tokens there than before. made: there is a choice to make before the layer.
    read: the attention of the layer is read for a later choice. states_kept: a later choice looks at the layer's input.
    """

    falls: tuple[bool, ...]
    made: tuple[bool, ...]
    read: tuple[bool, ...]
    states_kept: tuple[bool, ...]

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], num_visual: Sequence[int], chain: Chain, layers: LayerMap) -> Self:
        """Of a plan's counts [B][L]."""
        counts = np.array(rows)
        before = np.column_stack([np.array(num_visual), counts[:, :-1]])
        falls: list[bool] = np.any(counts < before, axis=0).tolist()
        scorers = [chain.scorer_at(layer) for layer in range(len(falls))]
        made = [
            scorer is not None and (fall or scorer.acts_at(layer))
            for layer, (fall, scorer) in enumerate(zip(falls, scorers, strict=True))
        ]
        reads = [m and s is not None and s.needs_attention for m, s in zip(made, scorers, strict=True)]
        looks = [m and s is not None and s.needs_previous_hidden for m, s in zip(made, scorers, strict=True)]
        # layers without attention may stand between: what is chosen behind them is read of the last one that has some
        read = {layers.readable_before[boundary] for boundary, wanted in enumerate(reads) if wanted}
        return cls(tuple(falls), tuple(made), tuple(layer in read for layer in range(len(falls))), (*looks[1:], False))

    @cached_property
    def first(self) -> int | None:
        """The first layer before which there is a choice; None if there is none."""
        return next((layer for layer, chooses in enumerate(self.made) if chooses), None)

    @cached_property
    def untouched(self) -> int:
        """Number of leading layers that the plan leaves unchanged."""
        busy = (layer for layer, does in enumerate(zip(self.made, self.states_kept, strict=True)) if any(does))
        return next(busy, len(self.made))
