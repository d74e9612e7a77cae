"""From a curve of retentions to whole tokens that meet a budget: never above it, and within one token of it."""

import torch
from torch import Tensor

from vispco.cost.bisection import largest_fitting
from vispco.cost.budget import clamp_budget, flops_limit
from vispco.cost.model import CostModel, Site

ALL = torch.iinfo(torch.int64).max


def meet(
    retention: Tensor,
    budget: Tensor,
    num_text: Tensor,
    num_visual: Tensor,
    cost: CostModel,
    *,
    site: Site = "entry",
    first_full: bool = True,
) -> Tensor:
    """The curve [B, L] cut from above, or lifted from below, until it costs the budget [B]: [B, L], float64.

    clamp(r, t - 1, t) for t in [0, 2] runs from nothing (t = 0) through the curve itself (t = 1) to everything (t = 2),
    costs more with every t, and stays non-increasing: so every budget between floor and 1 is met.
    """
    curve = retention.detach().double()

    def clamped(t: Tensor) -> Tensor:
        cut = torch.minimum(torch.maximum(curve, t[..., None] - 1.0), t[..., None])
        return torch.cat([torch.ones_like(cut[..., :1]), cut[..., 1:]], dim=-1) if first_full else cut

    def fits(t: Tensor) -> Tensor:
        return cost.flops(clamped(t), num_text, num_visual, site=site) <= limit

    limit = budget * cost.full(num_text, num_visual)
    unchanged = curve.new_ones(curve.shape[:-1])
    lift = fits(unchanged)  # which side of 1: there the curve itself is kept to the bit
    low, high = torch.where(lift, unchanged, 0.0), torch.where(lift, 2.0, unchanged)
    return clamped(largest_fitting(fits, low, high))


def snap(
    retention: Tensor,
    budget: Tensor,
    num_text: Tensor,
    num_visual: Tensor,
    cost: CostModel,
    *,
    site: Site = "entry",
    first_full: bool = True,
    fill: bool = True,
) -> Tensor:
    """Whole tokens [B, L] (int64) along the curve retention [B, L], non-increasing, with F / F_full <= budget [B] for all.

    Within one token: in no layer can one more token stay, without growing over the layer before, and F still meet the
    budget. With `fill=False` plateaus of the curve stay whole, and a token more through the one that is next to round up
    is too much.
    """
    budget = clamp_budget(budget, num_text, num_visual, cost, site=site, first_full=first_full)
    limit = flops_limit(budget, cost.full(num_text, num_visual).clamp_min(1))
    curve = meet(retention, budget, num_text, num_visual, cost, site=site, first_full=first_full)
    exact = curve * num_visual.double()[..., None]

    def rounded(shift: Tensor) -> Tensor:
        counts = (exact + shift[..., None]).floor().long().clamp_min(0)
        counts = torch.minimum(counts, num_visual[..., None])
        if first_full:
            counts[..., 0] = num_visual
        return counts

    def fits(shift: Tensor) -> Tensor:
        return cost.flops_of_counts(rounded(shift), num_text, site=site) <= limit

    # One rounding threshold per sample, the most generous that fits: layers that keep the same share round alike.
    ends = (exact.new_full(exact.shape[:-1], end) for end in (-1.0, 1.0))
    counts = rounded(largest_fitting(fits, *ends, bits=30))
    if fill:
        for most in (1, ALL):  # first spread what is left as single tokens, so that the curve keeps its shape
            counts = _filled(counts, limit, num_text, num_visual, cost, site, most)
    return counts


def _filled(
    counts: Tensor, limit: Tensor, num_text: Tensor, num_visual: Tensor, cost: CostModel, site: Site, most: int
) -> Tensor:
    """Front to back, give each layer as many more tokens (up to `most`) as the layer before and the limit allow.

    A layer is passed over only because it equals the one before, which no longer changes, or because one more token is
    over the limit, and what is left only shrinks: after a pass without `most`, no layer can take another token.
    """
    slack = limit - cost.flops_of_counts(counts, num_text, site=site)
    linear, quadratic = cost.linear(site).tolist(), cost.attention_quadratic
    columns = list(counts.unbind(dim=-1))
    before = num_visual
    for layer, count in enumerate(columns):
        N = num_text + count
        slope = linear[layer] + 2 * quadratic * N  # m more tokens cost slope * m + quadratic * m^2

        def price(m: Tensor, slope: Tensor = slope) -> Tensor:
            return m * (slope + quadratic * m)

        # The root of price(m) = slack, in the form that does not cancel; then the integer next to it, exactly.
        root = 2 * slack.double() / (slope.double() + (slope.double() ** 2 + 4.0 * quadratic * slack.double()).sqrt())
        extra = root.floor().long() + 1
        for _ in range(2):
            extra = torch.where(price(extra) > slack, extra - 1, extra)
        extra = torch.minimum(extra, before - count).clamp(0, most)
        slack = slack - price(extra)
        before = columns[layer] = count + extra
    return torch.stack(columns, dim=-1)
