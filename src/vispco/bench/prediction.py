"""What a profile says of a prefill before it is run: its milliseconds, and from how many visual tokens on pruning pays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from vispco.bench.profiling import load_profile
from vispco.cost import Dimensions, Exact, Measured, TimeProfile, Workload
from vispco.errors import InvalidInputError

FAR = 4  # times the longest prompt that was measured: up to there a break-even is looked for


def measured_cost(model: Any, batch: int) -> Measured | None:
    """Milliseconds of a batch on the model's device; None where it was not profiled."""
    dtype = next(model.parameters()).dtype
    try:
        return load_profile(Dimensions.from_config(model.config, dtype=dtype), model.device, dtype).cost(batch)
    except InvalidInputError:
        return None


def predict_batch(cost: Measured, counts: Tensor, num_text: Sequence[int], num_visual: Sequence[int]) -> float:
    """Milliseconds of a padded batch: at each layer it is as long as its longest sample. counts: [B, L]."""
    tokens = (counts + torch.tensor(num_text)[:, None]).amax(0)
    longest = max(text + visual for text, visual in zip(num_text, num_visual, strict=True))
    return float(cost.predict(tokens, Workload(0, longest)))


def break_even(cost: Measured, retention: Sequence[float], num_text: int) -> int | None:
    """From how many visual tokens of each sample on a schedule is faster than none; None if it never is.

    retention: [L], of each layer's input.
    """
    curve = torch.tensor(retention, dtype=torch.float64)

    def pays(visual: int) -> bool:
        workload = Workload(num_text, visual)
        counts = (curve * visual).round().long()
        return float(cost.predict(counts, workload)) < float(cost.full(workload))

    most = FAR * cost.tokens[-1]
    if not pays(most):
        return None
    low, high = 0, most  # a saving grows with the tokens, a drop's price does not
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high


def useful_batch(profile: TimeProfile, num_text: int, num_visual: int, *, enough: float = 0.8) -> int:
    """The smallest batch that was measured at which half of the tokens save as much time as FLOPs say, nearly; else the largest.

    With few tokens in a layer its fixed cost hides the saving. Half of the tokens leave before the second layer.
    """
    layers = profile.dimensions.num_layers
    workload = Workload(num_text, num_visual)
    counts = torch.tensor([num_visual if layer < 1 else num_visual // 2 for layer in range(layers)])
    exact = Exact(profile.dimensions)
    implied = float(exact.full(workload)) / float(exact.price(counts, workload))
    for batch in profile.batches:
        cost = profile.cost(batch)
        if float(cost.full(workload)) / float(cost.predict(counts, workload)) >= enough * implied:
            return batch
    return profile.batches[-1]
