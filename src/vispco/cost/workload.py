"""Workload: what a cost prices besides the counts, namely the samples' sizes and where their tokens leave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, Self, TypeAlias, get_args

import torch
from torch import Tensor

from vispco.errors import InvalidInputError

Site: TypeAlias = Literal["entry", "mid"]
"""Where tokens leave: at the entry of a layer, or in the middle of the layer before, behind its attention."""


@dataclass(frozen=True, init=False, eq=False)
class Workload:
    """The samples that are priced. Numbers of tokens are int64 tensors [...]; plain integers are converted.

    num_text, num_visual: tokens of each sample, before pruning.
    site: where tokens leave before each layer: one for all, or L of them (a chain may mix them).
    earliest_layer: the first layer that may process fewer tokens. The layers before it process all of them.
    """

    num_text: Tensor
    num_visual: Tensor
    site: Site | tuple[Site, ...]
    earliest_layer: int

    def __init__(
        self,
        num_text: int | Sequence[int] | Tensor,
        num_visual: int | Sequence[int] | Tensor,
        site: Site | tuple[Site, ...] = "entry",
        earliest_layer: int = 1,
    ) -> None:
        for given in (site,) if isinstance(site, str) else site:
            if given not in get_args(Site):
                raise InvalidInputError(
                    f'site={given!r} was given. Tokens leave at the "entry" of a layer or in the "mid" of the one before.'
                )
        if earliest_layer < 0:
            raise InvalidInputError(f"earliest_layer={earliest_layer} was given. Layers are counted from 0.")
        object.__setattr__(self, "num_text", _whole(num_text, "num_text"))
        object.__setattr__(self, "num_visual", _whole(num_visual, "num_visual"))
        object.__setattr__(self, "site", site)
        object.__setattr__(self, "earliest_layer", earliest_layer)

    def tokens(self, counts: Tensor) -> Tensor:
        """All tokens that enter each layer: visual ones [..., L] and the text."""
        return counts + self.num_text.to(counts.device)[..., None]

    def visual(self, retention: Tensor) -> Tensor:
        """Visual tokens that enter each layer, not rounded: retention [..., L] -> [..., L], float64, differentiable."""
        return retention.double() * self.num_visual.to(retention.device)[..., None]

    def full(self, num_layers: int) -> Tensor:
        """Counts of the unpruned model: [..., L]."""
        return self.num_visual[..., None].expand(*self.num_visual.shape, num_layers)

    def least(self, num_layers: int) -> Tensor:
        """The smallest counts: all visual tokens in the layers before `earliest_layer`, none behind: [..., L]."""
        counts = self.num_visual.new_zeros(*self.num_visual.shape, num_layers)
        counts[..., : self.earliest_layer] = self.num_visual[..., None]
        return counts

    def networks(self, num_layers: int) -> tuple[int, ...]:
        """How many feed-forward networks process the tokens that enter layer i, for i = 0..L-1.

        Tokens that leave before layer i at "entry" have passed the network of layer i - 1; at "mid" they have not, so
        that network processes what enters layer i. The last network processes what enters the last layer.
        """
        site = (self.site,) * num_layers if isinstance(self.site, str) else self.site
        if len(site) != num_layers:
            raise InvalidInputError(
                f"{len(site)} sites were given for {num_layers} layers. Give one, or one per layer."
            )
        before = [int(i > 0 and site[i] == "mid") for i in range(num_layers)]
        own = [int(i == num_layers - 1 or site[i + 1] == "entry") for i in range(num_layers)]
        return tuple(a + b for a, b in zip(before, own, strict=True))

    def repeat(self, times: int) -> Self:
        """The samples [B], `times` times in a row: [times * B]."""
        return replace(self, num_text=self.num_text.repeat(times), num_visual=self.num_visual.repeat(times))

    def pinned(self, earliest_layer: int) -> Self:
        """The same with no layer before `earliest_layer` pruned either."""
        if earliest_layer <= self.earliest_layer:
            return self
        return replace(self, earliest_layer=earliest_layer)


def _whole(number: int | Sequence[int] | Tensor, name: str) -> Tensor:
    found = torch.as_tensor(number)
    if found.is_floating_point():
        raise InvalidInputError(f"{name}={number} was given. Numbers of tokens are integers.")
    return found.long()
