"""Budgets met on the host: whole tokens for many samples at once, in numpy.

A plan is made before every prefill. On a GPU each torch operation is a launch, and on a small model it is a good part of a
layer; so none is used here beside those of a cost that a user wrote.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vispco.cost.workload import Array, Workload

if TYPE_CHECKING:
    from vispco.cost.cost import Cost

ALL = int(np.iinfo(np.int64).max)
_AT_ONCE = 1 << 21  # numbers in memory at a time, while rounding
_BITS = 45  # of the number that `largest_number` finds
_MET = 1e-10  # how near a price must be to its limit for a curve to be left as it is


@dataclass(frozen=True, eq=False)
class ChoicePrice:
    """The price of choices for counts c [n, L], in a cost's unit: fixed + sum over layers of c (linear + quadratic c).

    A choice before layer i is a polynomial of the tokens of layer i - 1; before layer 0, of all visual tokens.
    """

    fixed: Array  # [n]
    linear: Array  # [n, L]
    quadratic: Array  # [n, L]

    def of_counts(self, counts: Array) -> Array:
        """[..., n, L] -> [..., n]."""
        found: Array = self.fixed + (counts * (self.linear + self.quadratic * counts)).sum(axis=-1)
        return found


class HostPricing:
    """A cost and the samples [n] that it prices, as numpy arrays. Budgets are fractions [n] of the unpruned price.

    workload: of one dimension. paid: bool [n, L], the layers before which a choice is paid for, besides the tokens; None: tokens
    alone (`paying`). choices: their price as a polynomial of the counts; None if they cost nothing.
    text, visual, read, asked: tokens of each sample [n]: text, visual ones, those of them that never leave, text that scorers
    read. planning: FLOPs of the plan itself [n]. charges: whether anything is paid besides tokens.
    whole, least: the largest counts, and the smallest: all tokens before the first layer that may be pruned, behind it those that
    are read; [n, L].
    """

    def __init__(self, cost: Cost, workload: Workload, same: HostPricing | None = None) -> None:
        """same: the pricing of the same samples, whose arrays are used again."""
        self.cost, self.workload, self.first = cost, workload, workload.earliest_layer
        self.paid: Array | None = None
        self.choices: ChoicePrice | None = None
        if same is None:
            text, visual, asked = workload.num_text.numpy(), workload.num_visual.numpy(), workload.num_instruction
            self.text: Array = text
            self.visual: Array = visual
            self.read: Array = np.minimum(np.broadcast_to(workload.num_read.numpy(), visual.shape), visual)
            self.planning: Array = np.broadcast_to(workload.planning_flops.numpy(), visual.shape)
            self.asked: Array = np.broadcast_to(text if asked is None else asked.numpy(), visual.shape)
        else:
            self.text, self.visual, self.read = same.text, same.visual, same.read
            self.planning, self.asked = same.planning, same.asked
        scored = workload.scoring is not None or bool(self.planning.any())
        self.charges = bool(cost.drop_price) or (scored and bool(cost.flop_price))
        self.networks = workload.networks(cost.num_layers)
        self.whole: Array = np.repeat(self.visual[:, None], cost.num_layers, axis=1)
        self.least: Array = np.repeat(self.read[:, None], cost.num_layers, axis=1)
        self.least[:, : self.first] = self.visual[:, None]

    def paying(self, choices: Array) -> HostPricing:
        """The same samples where choices before these layers are paid for: bool [n, L]."""
        made, cost, scoring = copy(self), self.cost, self.workload.scoring
        made.full = self.full  # computed once for all
        made.paid, made.choices = choices, None
        if not self.charges:
            return made
        fixed: Array = self.planning
        linear: Array = np.zeros_like(choices, np.int64)
        quadratic: Array = np.zeros_like(choices, np.int64)
        if scoring is not None:
            found = scoring.flops(choices, self.text, self.asked, self.visual)
            first = (found.linear[:, 0] + found.quadratic[:, 0] * self.visual) * self.visual
            fixed = fixed + found.once + found.constant.sum(axis=1) + first
            linear[:, :-1], quadratic[:, :-1] = found.linear[:, 1:], found.quadratic[:, 1:]
            linear += found.kept
        if cost.flop_price != 1.0:
            fixed, linear, quadratic = (each * cost.flop_price for each in (fixed, linear, quadratic))
        if cost.drop_price:
            fixed = fixed + cost.drop_price * choices.sum(axis=1)
        made.choices = ChoicePrice(fixed, linear, quadratic)
        return made

    def price(self, counts: Array) -> Array:
        """The price of whole tokens [..., n, L] and of the choices that are paid for: [..., n]."""
        tokens = self.cost.host_price(counts, self)
        return tokens if self.choices is None else tokens + self.choices.of_counts(counts)

    def relaxed(self, retention: Array) -> Array:
        """The price of any retention [..., n, L] and of those choices: [..., n], float64."""
        tokens = self.cost.host_relaxed(retention, self)
        return tokens if self.choices is None else tokens + self.choices.of_counts(retention * self.visual[:, None])

    def bill(self, counts: Array) -> Array:
        """The price of whole tokens [n, L] and of exactly the choices that lead to them: [n]."""
        return self.paying(self.falls(counts)).price(counts)

    @cached_property
    def full(self) -> Array:
        """The price of the unpruned model: [n]."""
        return self.cost.host_price(as_array(self.workload.full(self.cost.num_layers)), self)

    @cached_property
    def divisor(self) -> Array:
        whole = self.full.astype(np.float64)
        return np.where(whole > 0, whole, 1.0)

    @cached_property
    def floor(self) -> Array:
        """The lowest bill: that of the fewest tokens, or of all where the choice takes more than it saves: [n]."""
        return np.minimum(self.bill(self.least), self.bill(self.whole))

    @cached_property
    def lowest(self) -> Array:
        """The floor as a fraction of the unpruned price: [n]."""
        return self.floor / self.divisor

    def fits(self, counts: Array, budget: Array) -> Array:
        """Whether whole tokens [..., n, L] cost at most the budget [n]."""
        return self.price(counts) / self.divisor <= budget

    def pinned(self, curve: Array) -> Array:
        """A curve [..., L] with the layers that cannot be pruned full, and nowhere under what is read."""
        if self.read.any():
            curve = np.maximum(curve, (self.read / np.maximum(self.visual, 1))[:, None])
        if self.first:
            curve = curve.copy()
            curve[..., : self.first] = 1.0
        return curve

    def meet(self, curve: Array, budget: Array) -> Array:
        """See `vispco.cost.meet`; a curve that costs its budget already is left as it is."""
        limit = budget * self.full
        whole = self.pinned(curve)
        spent = self.relaxed(whole)
        met = np.abs(spent - limit) <= _MET * np.maximum(limit, 1.0)
        if met.all():
            return whole

        def clamped(t: Array) -> Array:
            return self.pinned(np.minimum(np.maximum(curve, t[..., None] - 1.0), t[..., None]))

        lift = spent <= limit
        low, high = np.where(lift, 1.0, 0.0), np.where(lift, 2.0, 1.0)
        found = clamped(largest_number(lambda t: self.relaxed(clamped(t)) <= limit, low, high))
        return np.where(met[:, None], whole, found)

    def snap(self, curve: Array, budget: Array, *, fill: bool = True) -> Array:
        """Whole tokens [n, L] along curves [n, L] whose bill is at most the budget [n], which no floor exceeds; see `snap`."""
        if not self.charges:
            return self._solved(curve, budget, fill=fill)
        unpruned = (budget >= 1) & ~self.falls(self.whole).any(axis=1)
        if unpruned.all():
            return self.whole
        choices = self.falls_of(curve)
        while True:  # a curve that is cut from above may drop once more
            pricing = self.paying(choices)
            short = ~pricing.fits(self.least, budget)
            if short.any():  # what the curve's choices cost leaves nothing for tokens: one choice, as early as may be
                curve = np.where(short[:, None], curve[:, self.first : self.first + 1], curve)
                choices = np.where(short[:, None], self.falls(self.least), choices)
                pricing = self.paying(choices)
            counts = pricing._solved(curve, budget, fill=fill)  # noqa: SLF001 - its own kind
            found = self.falls(counts)
            if (found <= choices).all():
                break
            choices = choices | found
        counts = self._without_needless_drops(counts)
        if self.cost.drop_price:
            # At the edge of a stair where that is just below; layers that have all of their tokens keep them.
            text = self.text[:, None]
            lowered = np.maximum(self.cost.host_stairs(counts + text) - text, 0)
            counts = np.minimum.accumulate(np.where(counts < self.visual[:, None], lowered, counts), axis=1)
        elif fill:
            # as many as the bill allows, on the plateaus there are; one that closes a gap has its choice paid back
            before = counts - 1
            while (counts != before).any():
                before, counts = counts, self.paying(self.falls(counts)).fill(counts, budget, ALL)
        return np.where(unpruned[:, None], self.whole, counts)

    def falls_of(self, curve: Array) -> Array:
        """Before which layers a curve [n, L] makes a choice, in whole tokens: bool [n, L]."""
        return self.falls(np.rint(self.pinned(curve) * self.visual[:, None]))

    def _solved(self, curve: Array, budget: Array, *, fill: bool) -> Array:
        exact = self.meet(curve, budget) * self.visual[:, None]
        counts = self._rounded(exact, budget)
        if fill:
            counts = self._with_fewer_drops(counts, budget) if self.cost.least_saving else counts
            for most in (1, ALL):  # first spread what is left as single tokens, so that the curve keeps its shape
                counts = self.fill(counts, budget, most)
        return counts

    def falls(self, counts: Array) -> Array:
        """Before which layers a choice is made: where tokens leave, or a scorer decides in any case. counts [n, L] -> bool."""
        found: Array = np.diff(counts, axis=1, prepend=self.visual[:, None]) < 0
        scoring = self.workload.scoring
        return found if scoring is None else found | (scoring.always(counts.shape[1]) & (self.visual > 0)[:, None])

    def _without_needless_drops(self, counts: Array) -> Array:
        """Whole tokens in which no drop costs more than it saves: from the last one on, such tokens stay."""
        spent = self.bill(counts)
        for layer in np.flatnonzero(self.falls(counts).any(axis=0))[::-1].tolist():
            before = self.visual if layer == 0 else counts[:, layer - 1]
            raised = np.where(counts == counts[:, layer : layer + 1], before[:, None], counts)
            raised[:, :layer] = counts[:, :layer]
            afterwards = self.bill(raised)
            needless = (counts[:, layer] < before) & (afterwards <= spent)
            counts, spent = np.where(needless[:, None], raised, counts), np.where(needless, afterwards, spent)
        return counts

    def _with_fewer_drops(self, counts: Array, budget: Array) -> Array:
        """Plateaus joined with the one before, from the last one on, where the drop between them saves too little.

        They get as many tokens as the budget allows, between the two numbers that they had. The first drop stays.
        """
        worth = self.cost.least_saving * self.full
        layers = np.arange(counts.shape[1])
        falls = np.diff(counts, axis=1, prepend=self.visual[:, None]) < 0  # [n, L]
        for layer in np.flatnonzero(falls.any(axis=0))[::-1].tolist():
            # of the plateau before; -1 if it is whole
            begin = np.where(falls & (layers < layer), layers, -1).max(axis=1)
            behind = np.where(falls & (layers > layer), layers, len(layers)).min(axis=1)
            this = (layers >= layer) & (layers < behind[:, None])
            before = counts[:, layer - 1]
            joined = np.where(this, before[:, None], counts)
            saved = self.bill(joined) - self.bill(counts) if self.charges else self.price(joined) - self.price(counts)
            join = falls[:, layer] & (begin >= 0) & (saved < worth)
            if not join.any():
                continue
            both = (this | ((layers >= begin[:, None]) & (layers < layer))) & join[:, None]
            low = np.where(both, counts[:, layer : layer + 1], counts)
            room = np.where(join, before - counts[:, layer], 0)
            counts = low + both * self.cost.host_most(low, both, room, budget, self)[:, None]
            falls[:, layer] &= ~join
        return counts

    def _rounded(self, exact: Array, budget: Array) -> Array:
        """One rounding threshold per sample, the most generous that fits: layers that keep the same share round alike."""
        below = np.floor(exact)
        up = np.stack([below - exact, below + 1.0 - exact])  # thresholds in (-1, 1] at which a count rises: [2, n, L]
        steps = np.sort(up.transpose(1, 0, 2).reshape(len(exact), -1), axis=1).T  # [2 L, n]
        layers = exact.shape[1]
        found = np.empty(exact.shape, dtype=np.int64)
        chunk = max(1, _AT_ONCE // (2 * layers * layers))
        for start in range(0, len(exact), chunk):
            rows = slice(start, start + chunk)
            part = self._rows(rows) if chunk < len(exact) else self
            tried = np.concatenate([np.full((1, steps[:, rows].shape[1]), -2.0), steps[:, rows]])[..., None]
            counts = below[rows] - 1.0 + (tried >= up[0, rows]) + (tried >= up[1, rows])
            counts = np.clip(counts, part.read[:, None], part.visual[:, None]).astype(np.int64)
            counts[..., : self.first] = part.visual[:, None]
            last = _leading(part.fits(counts, budget[rows])) - 1
            found[rows] = np.take_along_axis(counts, last.clip(0)[None, :, None], axis=0)[0]
        return found

    def _rows(self, rows: slice) -> HostPricing:
        part = HostPricing(self.cost, self.workload.each(lambda numbers: numbers[rows]))
        return part if self.paid is None else part.paying(self.paid[rows])

    def fill(self, counts: Array, budget: Array, most: int) -> Array:
        """Give each plateau, front to back, up to `most` more tokens, as the one before and the budget allow: [n, L].

        A plateau is a run of layers that process the same tokens, so no drop is added; one may become needless.
        """
        counts = counts.copy()
        group = np.cumsum(np.diff(counts, axis=1, prepend=self.visual[:, None]) != 0, axis=1)
        starts = np.diff(group, axis=1, prepend=0) > 0
        for layer in np.flatnonzero(starts.any(axis=0)).tolist():
            member = (group == group[:, layer : layer + 1]) & starts[:, layer : layer + 1]
            before = self.visual if layer == 0 else counts[:, layer - 1]
            room = np.where(starts[:, layer], before - counts[:, layer], 0).clip(0, most)
            if room.any():
                counts += member * self.cost.host_most(counts, member, room, budget, self)[:, None]
        return counts


def largest_number(fits: Callable[[Array], Array], low: Array, high: Array) -> Array:
    """The largest x in [low, high] with fits(x), to (high - low) / 2^_BITS: low, high [n] -> [n]. `low` must fit.

    fits: candidates [C, n] -> bool [C, n]; true up to some candidate and false behind it.
    """
    # A step on a small array has a fixed price, so few samples are halved 5 or 3 times in one step. Every way visits the
    # same binary fractions (5 and 3 divide `_BITS`), so that a sample's result does not depend on its batch.
    at_once = 5 if low.size <= 32 else 3 if low.size <= 256 else 1
    parts = 2**at_once
    share = np.arange(1, parts + 1, dtype=np.float64).reshape(-1, *[1] * low.ndim) / parts
    for _ in range(_BITS // at_once):
        candidates = low + (high - low) * share
        fitting = _leading(fits(candidates))[None]
        edges = np.concatenate([low[None], candidates, high[None]])
        low, high = np.take_along_axis(edges, fitting, 0)[0], np.take_along_axis(edges, fitting + 1, 0)[0]
    return low


def largest_count(fits: Callable[[Array], Array], most: Array, *, parts: int = 16) -> Array:
    """The largest integer in [0, most] with fits(x), which must hold for 0: most [n] -> [n]."""
    low, high = np.zeros_like(most), most
    share = np.arange(1, parts + 1).reshape(-1, *[1] * most.ndim)
    while (low < high).any():
        candidates = low + ((high - low) * share + parts - 1) // parts
        fitting = _leading(fits(candidates))[None]
        edges = np.concatenate([low[None], candidates, high[None] + 1])
        low, high = np.take_along_axis(edges, fitting, 0)[0], np.take_along_axis(edges, fitting + 1, 0)[0] - 1
    return low


def _leading(fitting: Array) -> Array:
    """The number of candidates that fit before the first that does not: bool [C, n] -> int64 [n]."""
    found: Array = np.logical_and.accumulate(fitting, axis=0).sum(axis=0)
    return found


def as_array(values: Any) -> Array:
    """A tensor of the host, or of a device, as an array."""
    if not isinstance(values, torch.Tensor):
        return np.asarray(values)
    here = values.detach()
    found: Array = (here if here.device.type == "cpu" else here.cpu()).numpy()
    return found
