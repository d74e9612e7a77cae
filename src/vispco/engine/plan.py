"""`TokenPlan`: the number of visual tokens that each sample keeps at each layer of one prefill; `Choices`: what it asks for."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from torch import Tensor

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.layout import TokenLayout
from vispco.engine.layer_map import LayerMap
from vispco.scorers.chain import Chain
from vispco.scorers.mixture import chains_of


@dataclass(frozen=True, eq=False)
class TokenPlan:
    """Token counts int64 [B, L] on the host, never growing with depth; an upper bound for methods with a threshold.

    retention: [B, L] the same as fractions, with a gradient, where a search wants one.
    groups: the number of the chain that each sample follows, where the pruner has a mixed chain.
    planning_flops: what making the plan took, sample by sample; None for nothing.
    """

    counts: Tensor
    retention: Tensor | None = None
    groups: tuple[int, ...] | None = None
    planning_flops: tuple[int, ...] | None = None
    rows: list[list[int]] = field(init=False)

    def __post_init__(self) -> None:
        if self.counts.device.type != "cpu":
            raise InvalidInputError("A plan's counts must be on the host, so that no layer has to wait for a device.")
        counts = self.counts.numpy()
        if (np.diff(counts, axis=-1) > 0).any():
            raise InvalidInputError("A plan's counts grow with depth; a dropped token cannot come back.")
        object.__setattr__(self, "rows", counts.tolist())


_MOST_PLANS = 4096


class PlanMemory:
    """Plans by what they follow from: the same object for the same key, so that the engine knows it again."""

    def __init__(self) -> None:
        self._known: dict[Hashable, TokenPlan] = {}

    def recall(self, key: Hashable, make: Callable[[], TokenPlan]) -> TokenPlan:
        """The plan of a key, made if it is asked for the first time."""
        found = self._known.get(key)
        if found is None:
            found = make()
            if len(self._known) >= _MOST_PLANS:
                self._known.clear()
            self._known[key] = found
        return found


@dataclass(frozen=True, eq=False)
class Choices:
    """By layer 0..L-1, on the host.

    falls: the plan keeps fewer tokens there than before. made: there is a choice to make before the layer; False for L, behind
    the last. read: the attention of the layer is read for a later choice. states_kept: a later choice looks at its input.
    first: the first layer before which there is a choice; None if there is none. untouched: number of leading layers that the
    plan leaves unchanged.
    """

    falls: tuple[bool, ...]
    made: tuple[bool, ...]
    read: tuple[bool, ...]
    states_kept: tuple[bool, ...]
    first: int | None
    untouched: int

    @classmethod
    def of(cls, rows: Sequence[Sequence[int]], num_visual: Sequence[int], chain: Chain, layers: LayerMap) -> Self:
        """The choices that a plan's counts [B][L] ask for."""
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
        sources = {layers.readable_before[boundary] for boundary, wanted in enumerate(reads) if wanted}
        read, kept = tuple(layer in sources for layer in range(len(falls))), (*looks[1:], False)
        first = made.index(True) if any(made) else None
        busy = (layer for layer, does in enumerate(zip(made, kept, strict=True)) if any(does))
        return cls(tuple(falls), (*made, False), read, kept, first, next(busy, len(made)))


Planner = Callable[[TokenLayout, Tensor], TokenPlan]
"""(layout, embeddings [B, N, D] that enter the language model) -> plan. A fixed schedule, or a trained predictor."""


def check_plan(plan: TokenPlan, layout: TokenLayout, layers: LayerMap, chain: Chain) -> None:
    """Refuse a plan that does not fit the batch, the model or the chain of scorers, before any layer has run."""
    num_layers = len(layers.names)
    expected = (layout.batch_size, num_layers)
    if tuple(plan.counts.shape) != expected:
        raise InvalidInputError(
            f"The schedule is for {tuple(plan.counts.shape)} (samples, layers), but the batch and the model have "
            f"{expected}. Make it with num_layers={num_layers} and one row per sample, or one row for all."
        )
    counts, visual = plan.counts.numpy(), np.array(layout.num_visual)[:, None]
    if (counts > visual).any() or (counts < 0).any():
        raise InvalidInputError("The plan keeps more visual tokens than a sample has, or fewer than none.")
    chains = chains_of(chain)
    groups = plan.groups or (0,) * layout.batch_size
    if len(groups) != layout.batch_size or not all(0 <= group < len(chains) for group in groups):
        raise InvalidInputError(
            f"The plan names the chains {groups} for {layout.batch_size} samples; the pruner has {len(chains)} chains."
        )
    # the first layer before which the attention of an earlier one can be read
    readable = next((b for b, found in enumerate(layers.readable_before) if found is not None), num_layers)
    for number in sorted(set(groups)):
        rows = [row for row, group in enumerate(groups) if group == number]
        own, first = chains[number], chains[number].earliest_layer
        if (counts[rows, :first] != visual[rows]).any():
            kept = "r_0 = 1" if first == 1 else f"r_0 .. r_{first - 1} = 1"
            raise InvalidInputError(
                f"The schedule prunes before layer {first}, but the scorer {own.name!r} is in charge from layer {first} on. "
                f"Keep all tokens until then ({kept}), or begin the chain with a scorer that reads no attention of the layer "
                "before, such as 'random'."
            )
        falls = np.any(np.diff(counts[rows], axis=1, prepend=visual[rows]) < 0, axis=0).tolist()
        for layer in range(readable):
            scorer = own.scorer_at(layer)
            if scorer is not None and scorer.needs_attention and falls[layer]:
                raise UnsupportedModelError(
                    f"The schedule prunes before layer {layer} by the attention of the layers before it, but the first layer "
                    f"with attention is layer {readable - 1}. Keep all tokens up to there, or begin the chain with a scorer "
                    "that reads no attention, such as 'random'."
                )


def check_masking(plan: TokenPlan, layout: TokenLayout, layers: LayerMap) -> None:
    """Refuse to mask tokens before a layer that would see them all the same."""
    last = layers.last_mixing
    if last < 0:
        return
    if (plan.counts.numpy()[:, : last + 1] < np.array(layout.num_visual)[:, None]).any():
        raise UnsupportedModelError(
            f"Layer {last} of this model is no attention layer: it mixes neighbouring tokens, which a mask cannot undo. Masking "
            f"equals dropping only for schedules that keep all tokens up to layer {last}. Use mode='drop', or prune from layer "
            f"{last + 1} on."
        )
