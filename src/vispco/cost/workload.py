"""`Workload`: sizes of samples, where their tokens leave, and the scoring that chooses them; a cost prices counts of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Protocol, Self, TypeAlias, get_args

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError

Site: TypeAlias = Literal["entry", "mid"]
"""Where tokens leave: at the entry of a layer, or in the middle of the layer before, behind its attention."""


Whole: TypeAlias = "int | Sequence[int] | Tensor"
Array: TypeAlias = "np.ndarray[Any, Any]"


@dataclass(frozen=True, eq=False)
class ScoringFlops:
    """FLOPs of choices, by the layer boundary at which they are made: each a polynomial of the tokens that are there before.

    constant, linear, quadratic, kept: int64 [n, L]; a choice of k among v visual tokens before layer i costs
    constant[:, i] + linear[:, i] * v + quadratic[:, i] * v^2 + kept[:, i] * k. once: int64 [n], spent in any case.
    """

    constant: Array
    linear: Array
    quadratic: Array
    kept: Array
    once: Array


class Scoring(Protocol):
    """The scoring of a workload, as a cost sees it; see `vispco.scorers.cost.ChainScoring`."""

    def always(self, num_layers: int) -> Array:
        """The layers before which a choice is made whatever the schedule says: bool [L]."""

    def flops(self, falls: Array, num_text: Array, num_instruction: Array, num_visual: Array) -> ScoringFlops:
        """FLOPs of the choices before the layers that are marked: falls bool [n, L], numbers of tokens int64 [n]."""


@dataclass(frozen=True, init=False, eq=False)
class Workload:
    """The samples that are priced. Numbers of tokens are int64 tensors [...]; plain integers are converted.

    num_text, num_visual: tokens of each sample, before pruning.
    site: where tokens leave before each layer: one for all, or L of them (a chain may mix them).
    earliest_layer: the first layer that may process fewer tokens. The layers before it process all of them.
    scoring: the cost of choosing; None where it costs nothing.
    num_instruction: text tokens that scorers read; default: all of the text.
    num_read: visual tokens that never leave, since their output is read.
    planning_flops: what the plan itself takes (a predictor).
    num_shown: visual tokens of the unpruned model, where a cut vision tower has left fewer of them; default: num_visual.
    """

    num_text: Tensor
    num_visual: Tensor
    site: Site | tuple[Site, ...]
    earliest_layer: int
    scoring: Scoring | None
    num_instruction: Tensor | None
    num_read: Tensor
    planning_flops: Tensor
    num_shown: Tensor | None

    def __init__(
        self,
        num_text: Whole,
        num_visual: Whole,
        site: Site | tuple[Site, ...] = "entry",
        earliest_layer: int = 1,
        scoring: Scoring | None = None,
        num_instruction: Whole | None = None,
        num_read: Whole = 0,
        planning_flops: Whole = 0,
        num_shown: Whole | None = None,
    ) -> None:
        for given in (site,) if isinstance(site, str) else site:
            if given not in get_args(Site):
                raise InvalidInputError(
                    f'site={given!r} was given. Tokens leave at the "entry" of a layer or in the "mid" of the one before.'
                )
        if earliest_layer < 0:
            raise InvalidInputError(f"earliest_layer={earliest_layer} was given. Layers are counted from 0.")
        numbers = {
            "num_text": num_text,
            "num_visual": num_visual,
            "num_instruction": num_instruction,
            "num_read": num_read,
            "planning_flops": planning_flops,
            "num_shown": num_shown,
        }
        fixed = {"site": site, "earliest_layer": earliest_layer, "scoring": scoring}
        whole = {name: None if number is None else _whole(number, name) for name, number in numbers.items()}
        for name, value in (fixed | whole).items():
            object.__setattr__(self, name, value)

    def tokens(self, counts: Tensor) -> Tensor:
        """All tokens that enter each layer: visual ones [..., L] and the text."""
        return counts + self.num_text.to(counts.device)[..., None]

    def visual(self, retention: Tensor) -> Tensor:
        """Visual tokens that enter each layer, not rounded: retention [..., L] -> [..., L], float64, differentiable."""
        return retention.double() * self.num_visual.to(retention.device)[..., None]

    def full(self, num_layers: int) -> Tensor:
        """Counts of the unpruned model: [..., L]."""
        shown = self.num_visual if self.num_shown is None else self.num_shown
        return shown[..., None].expand(*shown.shape, num_layers)

    def networks(self, num_layers: int) -> tuple[int, ...]:
        """The number of feed-forward networks that process the tokens that enter layer i, for i = 0..L-1.

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

    @property
    def shape(self) -> torch.Size:
        """The shape of the samples; numbers of tokens with fewer dimensions hold for several of them."""
        numbers = (each for field in fields(self) if isinstance(each := getattr(self, field.name), Tensor))
        return torch.broadcast_shapes(*(each.shape for each in numbers))  # type: ignore[no-untyped-call, no-any-return]

    @property
    def in_a_row(self) -> Self:
        """The same samples in one dimension: [n]."""
        return self.each(lambda numbers: numbers.reshape(-1))

    def repeat(self, times: int) -> Self:
        """The samples [B], `times` times in a row: [times * B]."""
        return self.each(lambda numbers: numbers.expand_as(self.num_visual).repeat(times))

    def each(self, change: Callable[[Tensor], Tensor]) -> Self:
        """The same with every tensor of numbers changed alike, such as `lambda numbers: numbers[:4]`."""
        given = {each.name: getattr(self, each.name) for each in fields(self)}
        numbers = {name: each for name, each in given.items() if isinstance(each, Tensor)}
        changed: Any = {name: change(each.expand(self.shape)) for name, each in numbers.items()}
        return replace(self, **changed)

    def pinned(self, earliest_layer: int) -> Self:
        """The same with no layer before `earliest_layer` pruned either."""
        if earliest_layer <= self.earliest_layer:
            return self
        return replace(self, earliest_layer=earliest_layer)


_ZERO = torch.zeros((), dtype=torch.int64)


def _whole(number: int | Sequence[int] | Tensor, name: str) -> Tensor:
    if number is _ZERO or (type(number) is int and number == 0):
        return _ZERO
    found = torch.as_tensor(number)
    if found.is_floating_point():
        raise InvalidInputError(f"{name}={number} was given. Numbers of tokens are integers.")
    return found.long()
