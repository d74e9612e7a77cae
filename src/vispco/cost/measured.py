"""Milliseconds of a prefill, from a table that was measured once on a device."""

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost.cost import Cost
from vispco.cost.formulas import Exact
from vispco.cost.host import HostPricing, as_array
from vispco.cost.workload import Array, Workload

NEAR = 0.02  # the share of the tokens that a stair may be below
STEEP = 2.0  # the multiple of their share of time that these tokens must take
MARGIN = 0.03  # of a budget of time that is not planned with, at least: what a profile may be wrong by
BEYOND = 8  # how far the table is extended beyond its last size, on the line of its last two


@dataclass(frozen=True)
class Measured(Cost):
    """The time to the first token: the vision tower, the layers of the language model, and what stands around them. `price` is
    without the drops, which `bill` adds: so that it never falls when a count grows.

    tokens: sizes that were measured, growing. layer_ms: of one layer with each of these sizes, never falling.
    fixed_ms: of everything outside of the layers. drop_ms: of one drop. batch: the samples at once that all of it is about.
    tower_ms: of the vision tower on the pictures of a batch, for each visual token of one of its samples.
    margin: the share of a budget that planners leave free, since times vary from one prefill to the next.
    """

    name: ClassVar[str] = "measured"
    unit: ClassVar[str] = "ms"

    tokens: tuple[int, ...] = ()
    layer_ms: tuple[float, ...] = ()
    fixed_ms: float = 0.0
    drop_ms: float = 0.0
    batch: int = 1
    margin: float = MARGIN
    tower_ms: float = 0.0

    def __post_init__(self) -> None:
        steps = list(zip(self.tokens, self.layer_ms, strict=False))
        growing = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(steps))
        if len(self.tokens) != len(self.layer_ms) or len(self.tokens) < 2 or not growing:
            raise InvalidInputError(
                f"A table of {len(self.tokens)} sizes and {len(self.layer_ms)} times was given for the cost {self.name!r}. It "
                "needs two or more growing sizes with times that never fall: run `vispco profile MODEL` on this device."
            )

    @property
    def drop_price(self) -> float:
        return self.drop_ms

    @property
    def flop_price(self) -> float:
        """Scoring runs at the speed of the largest layer that was measured."""
        largest = Workload(0, self.tokens[-1])
        return self.layer_ms[-1] * self.num_layers / float(Exact(self.dimensions).full(largest))

    def price(self, counts: Tensor, workload: Workload) -> Tensor:
        """Milliseconds without drops: counts [..., L] -> [...], float64."""
        self.check_layers(counts)
        return (
            torch.from_numpy(np.asarray(self._time(as_array(workload.tokens(counts)))))
            + self.tower_ms * workload.num_visual
        )

    def host_price(self, counts: Array, pricing: HostPricing) -> Array:
        return self._time(counts + pricing.text[:, None]) + self.tower_ms * pricing.visual

    def host_relaxed(self, retention: Array, pricing: HostPricing) -> Array:
        return self._time(retention * pricing.visual[:, None] + pricing.text[:, None]) + self.tower_ms * pricing.visual

    def host_stairs(self, tokens: Array) -> Array:
        """A measured size just below, where the few tokens above it take much more than their share of a layer's time."""
        sizes, here = np.array(self.tokens), self._layer(tokens)
        removed = (tokens[..., None] - sizes) / np.maximum(tokens[..., None], 1)  # [..., sizes]
        near = (removed > 0) & (removed <= NEAR) & (here[..., None] > 0)
        steep = (here[..., None] - self._layer(sizes)) / np.where(near, removed * here[..., None], 1.0)
        best = np.where(near, steep, 0.0).argmax(axis=-1)
        found: Array = np.where(np.where(near, steep, 0.0).max(axis=-1) >= STEEP, sizes[best], tokens)
        return found

    def _time(self, N: Array) -> Array:
        """Milliseconds of all layers and of what stands around them: N [..., L] tokens -> [...]."""
        found: Array = self._layer(N).sum(axis=-1) + self.fixed_ms
        return found

    def _layer(self, N: Array) -> Array:
        """Milliseconds of one layer by its number of tokens: [...] -> [...]."""
        x, y = np.array(self.tokens, dtype=np.float64), np.array(self.layer_ms, dtype=np.float64)
        slope = (y[-1] - y[-2]) / (x[-1] - x[-2])
        ends = np.array([0.0]), np.array([BEYOND * x[-1]])
        first = max(0.0, y[0] - (y[1] - y[0]) / (x[1] - x[0]) * x[0])
        times = np.concatenate([[min(first, y[0])], y, y[-1:] + slope * (BEYOND - 1) * x[-1]])
        found: Array = np.interp(N, np.concatenate([ends[0], x, ends[1]]), times)
        return found
