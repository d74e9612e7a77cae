"""From a curve of retentions to whole tokens that meet a budget: never above it, and within one token at the layers that drop."""

import numpy as np
import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.floor import clamp, flat
from vispco.cost.host import HostPricing, as_array
from vispco.cost.largest_fitting import largest_fitting
from vispco.cost.workload import Workload


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

    Plateaus of the curve stay whole: layers that keep the same share process the same tokens. Within one token at the
    layers that drop: no plateau can have one more token, without growing over the one before, and the price still meet the
    budget. With `fill=False` one more token through the plateau that is next to round up exceeds the budget.
    """
    shape = workload.num_visual.shape
    pricing = HostPricing(cost, workload if len(shape) == 1 else flat(workload))
    curve = as_array(retention).astype(np.float64)
    curve = np.broadcast_to(curve, (*shape, curve.shape[-1])).reshape(-1, curve.shape[-1])
    limits = clamp(as_array(torch.as_tensor(budget, dtype=torch.float64)).reshape(-1), pricing)
    return torch.from_numpy(pricing.snap(curve, limits, fill=fill)).reshape(*shape, -1)
