"""From a curve of retentions to whole tokens that meet a budget: never above it, and within one token of it."""

import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.floor import clamp_budget
from vispco.cost.largest_fitting import largest_fitting
from vispco.cost.workload import Workload

ALL = torch.iinfo(torch.int64).max


def meet(retention: Tensor, budget: Tensor, workload: Workload, cost: Cost) -> Tensor:
    """The curve [B, L] cut from above, or lifted from below, until it costs the budget [B]: [B, L], float64.

    clamp(r, t - 1, t) for t in [0, 2] runs from nothing (t = 0) through the curve itself (t = 1) to everything (t = 2),
    costs more with every t, and stays non-increasing: so every budget between floor and 1 is met.
    """
    curve, first = retention.detach().double(), workload.earliest_layer

    def clamped(t: Tensor) -> Tensor:
        cut = torch.minimum(torch.maximum(curve, t[..., None] - 1.0), t[..., None])
        return torch.cat([torch.ones_like(cut[..., :first]), cut[..., first:]], dim=-1) if first else cut

    def fits(t: Tensor) -> Tensor:
        return cost.relaxed(clamped(t), workload) <= limit

    limit = budget * cost.full(workload)
    unchanged = curve.new_ones(curve.shape[:-1])
    lift = fits(unchanged)  # which side of 1: there the curve itself is kept to the bit
    low, high = torch.where(lift, unchanged, 0.0), torch.where(lift, 2.0, unchanged)
    return clamped(largest_fitting(fits, low, high))


def snap(retention: Tensor, budget: Tensor, workload: Workload, cost: Cost, *, fill: bool = True) -> Tensor:
    """Whole tokens [B, L] (int64) along the curve retention [B, L], non-increasing, that cost at most the budget [B].

    Within one token: in no layer can one more token stay, without growing over the layer before, and the price still meet
    the budget. With `fill=False` plateaus of the curve stay whole: one more token through the plateau that is next to
    round up exceeds the budget.
    """
    budget = clamp_budget(budget, workload, cost)
    full = cost.divisor(workload)
    curve = meet(retention, budget, workload, cost)
    exact, visual = workload.visual(curve), workload.num_visual[..., None]

    def rounded(shift: Tensor) -> Tensor:
        counts = (exact + shift[..., None]).floor().long().clamp_min(0)
        counts = torch.minimum(counts, visual)
        counts[..., : workload.earliest_layer] = visual
        return counts

    def fits(shift: Tensor) -> Tensor:
        return cost.price(rounded(shift), workload).double() / full <= budget

    # One rounding threshold per sample, the most generous that fits: layers that keep the same share round alike.
    ends = (exact.new_full(exact.shape[:-1], end) for end in (-1.0, 1.0))
    counts = rounded(largest_fitting(fits, *ends, bits=30))
    if fill:
        for most in (1, ALL):  # first spread what is left as single tokens, so that the curve keeps its shape
            counts = cost.fill(counts, budget, workload, most)
    return counts
