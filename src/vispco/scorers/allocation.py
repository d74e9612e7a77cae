"""Allocation: dividing a sample's count over its pictures. A frame of a video is a picture.

    score   not at all: the tokens of all pictures compete, and the best stay wherever they are (the default)
    equal   every picture keeps the same number; what a small one cannot use goes to the others
    size    every picture keeps a number in proportion to its tokens

A division is an order of seats. The seat k = 0, 1, ... of a picture with n tokens comes at k (equal) or at (2k + 1) / 2n
(size, Webster's rule), ties going to the earlier picture; a count of c takes the first c seats. So the quotas of a picture
sum to the count, never exceed its tokens, and never grow with depth.
"""

from collections.abc import Callable
from dataclasses import replace
from operator import attrgetter
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.core.layout import Array, TokenLayout
from vispco.scorers.base import Merge, Scorer, Selection, ranks
from vispco.scorers.context import ScoringContext
from vispco.scorers.grid import places_within

SCORE = "score"
SEATS: dict[str, Callable[[Any, Any], Any]] = {
    "equal": lambda place, size: place + 0.0 * size,
    "size": lambda place, size: (2.0 * place + 1.0) / (2.0 * size),
}
"""(places, sizes of their pictures) -> where the seats of these places come; arrays or tensors."""
ALLOCATIONS = (SCORE, *SEATS)
_LEFT = "tokens left by picture"  # kept for a prefill once a method has decided a count by itself


def check_allocation(name: Any) -> str:
    """Refuse a name that is not an allocation."""
    if name not in ALLOCATIONS:
        raise InvalidInputError(
            f"allocation={name!r} was given. It says how tokens are divided over the pictures of a prompt: {', '.join(ALLOCATIONS)}."
            f"{did_you_mean(str(name), ALLOCATIONS)}"
        )
    return str(name)


def picture_sizes(layout: TokenLayout) -> Array:
    """The visual tokens of each picture of each sample: int64 [B, P] on the host."""
    filled, picture = layout.slots < layout.length, layout.picture_at
    number = int(np.where(filled, picture, -1).max(initial=-1)) + 1
    return np.stack([np.bincount(row[real], minlength=number) for row, real in zip(picture, filled, strict=True)])


def divide(allocation: str, sizes: Array, counts: Array, left: Array | None = None) -> Array:
    """Quotas: sizes int64 [B, P] and counts [B] -> int64 [B, P].

    left: [B, P], how many tokens are still there, where a method has dropped by a rule of its own; default: all.
    """
    number, most = sizes.shape[1], int(sizes.max(initial=0))
    place = np.arange(most)
    free = place < (sizes if left is None else left)[..., None]  # [B, P, most]
    seat = np.where(free, SEATS[allocation](place, sizes[..., None].clip(1)), np.inf).reshape(len(sizes), -1)
    order = np.argsort(seat, axis=1, kind="stable")
    taken = (np.arange(number * most) < counts[:, None]) & np.take_along_axis(free.reshape(seat.shape), order, axis=1)
    whose = np.where(taken, order // max(most, 1), number)
    return np.stack([np.bincount(row, minlength=number + 1)[:number] for row in whose])


class Allocated(Scorer):
    """A scorer whose choice is divided over the pictures of each sample. What it needs and costs is what the scorer does.

    Ratings are taken once, and the best of each picture stay. Methods that choose a set, merge or have a threshold choose
    within one picture after the other.
    """

    def __init__(self, scorer: Scorer, allocation: str) -> None:
        self.scorer, self.allocation = scorer, allocation

    def select(self, context: ScoringContext) -> Selection:
        layout, live = context.layout, context.live
        sizes = picture_sizes(layout)
        quotas = divide(self.allocation, sizes, np.array(context.host_counts), context.memo.get(_LEFT))
        picture = layout.picture_index
        if self.scorer.rates:
            scores = self.scorer.score(context)
            order = ranks(scores, live)
            allowed = layout.on_device(np.pad(quotas, ((0, 0), (0, 1)))).gather(1, picture)
            chosen = Selection((places_within(order, picture, live) < allowed) & live, scores)
        else:
            chosen = self._by_picture(context, sizes, quotas)
            order = ranks(chosen.keep.float() if chosen.scores is None else chosen.scores, live)
        if self.scorer.decides_count:
            left = torch.zeros(len(live), quotas.shape[1] + 1, dtype=torch.long, device=live.device)
            context.memo[_LEFT] = left.scatter_add(1, picture, chosen.keep.long())[:, :-1].cpu().numpy()
        order = order + live.shape[1] * (~chosen.keep).long()  # those that stay come first
        size = layout.on_device(np.pad(sizes, ((0, 0), (0, 1)), constant_values=1)).gather(1, picture)
        return replace(chosen, scores=-SEATS[self.allocation](places_within(order, picture, live), size).float())

    def __eq__(self, other: object) -> bool:
        own = (self.scorer, self.allocation)
        return isinstance(other, Allocated) and own == (other.scorer, other.allocation)

    def __hash__(self) -> int:
        return hash((Allocated, self.scorer, self.allocation))

    def _by_picture(self, context: ScoringContext, sizes: Array, quotas: Array) -> Selection:
        """The choice of each picture as if there were no other."""
        keep, merge, mask = torch.zeros_like(context.live), None, None
        scores = torch.zeros(keep.shape, device=keep.device)
        context = replace(context, source=None if context.source is None else _AskedOnce(context.source))
        limits = context.layout.on_device(quotas)
        whole = context.memo.get(_LEFT, sizes)
        for number in range(quotas.shape[1]):
            here = context.layout.picture_index == number
            live, quota = context.live & here, quotas[:, number]
            if not self.scorer.decides_count and (quota == whole[:, number]).all():
                keep = keep | live
                continue
            chosen = self.scorer.select(
                replace(context, live=live, counts=limits[:, number], host_counts=tuple(quota.tolist()))
            )
            keep = keep | (chosen.keep & here)
            if chosen.scores is not None:
                scores = torch.where(here, chosen.scores, scores)
            if chosen.merge is not None:
                merge = _joined(merge, chosen.merge, here, context.sizes)
            if chosen.mask is not None:
                mask = torch.where(here, chosen.mask, torch.ones_like(scores) if mask is None else mask)
        return Selection(keep, scores, merge, mask)


# What it does not say itself, the scorer inside says.
for _name in ("name", *(name for name in vars(Scorer) if not name.startswith("_") and name not in vars(Allocated))):
    setattr(Allocated, _name, property(attrgetter(f"scorer.{_name}")))


class _AskedOnce:
    """An attention source that computes once what is asked for each picture."""

    def __init__(self, source: Any) -> None:
        self._source = source
        self._known: dict[Any, tuple[Any, Any]] = {}

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._source, name)

        def ask(*given: Any, **options: Any) -> Any:
            key = (name, *(id(each) if isinstance(each, Tensor) else each for each in given), *options.items())
            if key not in self._known:
                # what was given is kept, so that its id stays its own
                self._known[key] = (method(*given, **options), given)
            return self._known[key][0]

        return ask


def _joined(known: Merge | None, new: Merge, here: Tensor, sizes: Tensor) -> Merge:
    """Merges of several pictures as one."""
    weight = sizes if new.weight is None else new.weight.float()
    if known is None:
        known = Merge(torch.full_like(new.into, -1), torch.zeros_like(weight), new.normalise)
    assert known.weight is not None  # noqa: S101 - set above
    return Merge(torch.where(here, new.into, known.into), torch.where(here, weight, known.weight), new.normalise)
