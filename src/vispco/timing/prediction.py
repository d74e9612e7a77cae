"""Predictions from a time profile: milliseconds of a prefill, and the number of visual tokens from which pruning pays."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost import Budget, Cost, Dimensions, Exact, KvBytes, Measured, TimeProfile, Workload
from vispco.cost.host import HostPricing
from vispco.data.sample import Sample
from vispco.evaluation.encoded import encode
from vispco.pruner.measured_planner import flops_fraction, time_share
from vispco.timing.profiling import load_profile

_TYPICAL = 32  # samples whose median size is the typical one
_FAR = 4  # times the longest prompt that was measured: up to there a break-even is looked for


def measured_cost(model: Any, batch: int) -> Measured | None:
    """Milliseconds of a batch on the model's device; None where it was not profiled."""
    dtype = next(model.parameters()).dtype
    try:
        return load_profile(Dimensions.from_config(model.config, dtype=dtype), model.device, dtype).cost(batch)
    except InvalidInputError:
        return None


def predict_batch(cost: Measured, counts: Tensor, num_text: Sequence[int], num_visual: Sequence[int]) -> float:
    """Milliseconds of a padded batch without its vision tower: at each layer it is as long as its longest sample. counts: [B, L]."""
    tokens = (counts + torch.tensor(num_text)[:, None]).amax(0)
    longest = max(text + visual for text, visual in zip(num_text, num_visual, strict=True))
    return float(replace(cost, tower_ms=0.0).bill(tokens, Workload(0, longest)))


def break_even(cost: Measured, retention: Sequence[float], num_text: int) -> int | None:
    """From how many visual tokens of each sample on a schedule is faster than none; None if it never is.

    retention: [L], of each layer's input.
    """
    curve = torch.tensor(retention, dtype=torch.float64)

    def pays(visual: int) -> bool:
        workload = Workload(num_text, visual)
        counts = (curve * visual).round().long()
        return float(cost.bill(counts, workload)) < float(cost.full(workload))

    most = _FAR * cost.tokens[-1]
    if not pays(most):
        return None
    low, high = 0, most  # a saving grows with the tokens, a drop's price does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def useful_batch(profile: TimeProfile, num_text: int, num_visual: int, *, enough: float = 0.8) -> int:
    """The smallest batch that was measured at which half of the tokens save as much time as FLOPs say, nearly; else the
    largest.

    With few tokens in a layer its fixed cost hides the saving. Half of the tokens leave before the second layer.
    """
    layers = profile.dimensions.num_layers
    workload = Workload(num_text, num_visual)
    counts = torch.tensor([num_visual if layer < 1 else num_visual // 2 for layer in range(layers)])
    exact = Exact(profile.dimensions)
    implied = float(exact.full(workload)) / float(exact.price(counts, workload))
    for batch in profile.batches:
        cost = replace(profile.cost(batch), tower_ms=0.0)
        if float(cost.full(workload)) / float(cost.bill(counts, workload)) >= enough * implied:
            return batch
    return profile.batches[-1]


def _flops_share(budget: Budget, model: Any, num_text: int, num_visual: int) -> float:
    """Which fraction of the FLOPs a budget of time or of bytes comes to, for a prompt of this size that runs alone.

    For places that search or select by FLOPs. Where a pruner runs, the budget itself is solved for each batch.
    """
    if budget.kind == "flops":
        return budget.fraction
    if budget.kind == "prefill":
        raise InvalidInputError(
            f"The budget {budget} was given where pruners are searched or selected by the language model's FLOPs. Give a "
            "fraction of those, such as 0.5, and run what is found at a budget of the whole prefill."
        )
    if budget.is_mean:
        raise InvalidInputError(f"The budget {budget} was given. A mean with a cap is of FLOPs: mean:0.2,max:0.5.")
    dtype = next(model.parameters()).dtype
    dimensions = Dimensions.from_config(model.config, dtype=dtype)
    workload = Workload([num_text], [num_visual])
    if budget.kind == "bytes":
        price: Cost = KvBytes(dimensions)
        share = np.minimum(1.0, budget.amount / HostPricing(price, workload).divisor)
    else:
        price = measured = load_profile(dimensions, model.device, dtype).cost(1)
        share = time_share(budget, workload, measured)
    return flops_fraction(share, workload, price)


def said_fraction(budget: Budget, model: Any, sizes: tuple[int, int], say: Callable[[str], None]) -> float:
    """`_flops_share` of a budget for a prompt of a typical size (text, visual); what it comes to is said."""
    share = round(_flops_share(budget, model, *sizes), 3)
    if budget.kind != "flops":
        say(
            f"{budget.label}: {share:.1%} of the FLOPs, for a prompt of {sizes[0]} text and {sizes[1]} visual tokens alone "
            "on this device. A pruner at this budget solves it anew for each batch."
        )
    return share


def fraction_at_size(
    model: Any, processor: Any, samples: Sequence[Sample], say: Callable[[str], None]
) -> Callable[[Budget], float]:
    """Budgets of time or bytes to fractions of the FLOPs, at the median size of the first samples, which are only then encoded."""

    def fraction(budget: Budget) -> float:
        encoded = encode(model, processor, list(samples[:_TYPICAL]))
        pairs = sorted(zip(encoded.num_text, encoded.num_visual, strict=True), key=sum)
        return said_fraction(budget, model, pairs[len(pairs) // 2], say)

    return fraction
