"""Where a search begins: a wide set of a kernel's shapes. The budget fixes one parameter; these differ in the others."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from typing import Any

import torch
from torch import Tensor

from vispco.kernels import Kernel

_STEEPEST = 5.0  # of an unbounded slope: sigm(5) is 0.7 % from its end
_FRACTIONS = (0.6, 0.3, 0.1, 0.003)  # how much of the first plateau the second one of two steps keeps
_NO_STEP = 1.0 - 1e-6
GOLDEN = 0.6180339887498949  # multiples of it, modulo 1, fill an interval evenly however many there are


def initial_shapes(kernel: Kernel, num_layers: int, *, seed: int = 0) -> Tensor:
    """Parameters [K, P] of different shapes, float64. Makers put simple shapes first: one for each layer."""
    return _MAKERS.get(kernel.name, _around)(kernel, num_layers, seed)


def _layers(kernel: Kernel, num_layers: int) -> range:
    return range(kernel.earliest_layer, num_layers)


def _one_step(kernel: Any, num_layers: int, _: int) -> Tensor:
    """Pruning from each layer on."""
    return torch.stack([kernel.initial(num_layers, layer=layer) for layer in _layers(kernel, num_layers)])


def _slopes(kernel: Any, num_layers: int, _: int) -> Tensor:
    """From flat to as steep as the kernel's range allows."""
    start: Tensor = kernel.initial(num_layers).repeat(9, 1)
    start[:, 0] = torch.linspace(-_STEEPEST, _STEEPEST, 9, dtype=torch.float64)
    return start


def _steepness(kernel: Any, num_layers: int, _: int) -> Tensor:
    """From one long slope to sharp steps."""
    return torch.stack([kernel.initial(num_layers, k=2.0**power) for power in range(-3, 5)])


def _some_steps(kernel: Any, num_layers: int, _: int) -> Tensor:
    """Every single step, then every pair of steps at several depths of the second; further steps do nothing yet."""
    layers, idle = _layers(kernel, num_layers), kernel.steps
    plans = [([layer], [0.5]) for layer in layers]
    if kernel.steps > 1:
        pairs = combinations(layers, 2)
        plans += [([a, b], [0.5, 0.5 * share]) for a, b in pairs for share in _FRACTIONS]
    found = []
    for where, heights in plans:
        rest = idle - len(where)
        # steps without a drop stand half-way to the end, each a little behind the other
        last = where[-1] - 0.5
        spread = [last + (num_layers - last) * (j + 1) / (rest + 1) for j in range(rest)]
        lows = heights + [heights[-1] * _NO_STEP ** (j + 1) for j in range(rest)]
        found.append(kernel.initial(num_layers, positions=[w - 0.5 for w in where] + spread, heights=lows))
    return torch.stack(found)


def _free_curves(kernel: Any, num_layers: int, _: int) -> Tensor:
    """One step at each layer at several depths, and straight lines, as free curves."""
    stepped = [
        [_NO_STEP**i if i < layer else low * _NO_STEP**i for i in range(num_layers)]
        for layer in _layers(kernel, num_layers)
        for low in (0.5, 0.1)
    ]
    straight = [[1.0 - (1.0 - end) * i / (num_layers - 1) for i in range(num_layers)] for end in (0.5, 0.1)]
    found = stepped + straight
    first = kernel.earliest_layer
    found = [[1.0] * first + curve[first:] for curve in found]
    return torch.stack([kernel.initial(num_layers, retention=curve) for curve in found])


def _around(kernel: Kernel, num_layers: int, seed: int) -> Tensor:
    """For a kernel that is not known here: its own start, and random ones around it."""
    start = kernel.initial(num_layers)
    noise = torch.randn(31, len(start), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return torch.cat([start[None], start + 2.0 * noise])


_MAKERS: dict[str, Callable[[Any, int, int], Tensor]] = {
    "single": _one_step,
    "p-sigmoid": _one_step,
    "linear": _slopes,
    "exponential": _slopes,
    "multi-step": _steepness,
    "steps": _some_steps,
    "free": _free_curves,
}
