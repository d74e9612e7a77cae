"""Bytes of the KV cache."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.host import ALL, HostPricing
from vispco.cost.polynomial import Numbers, like
from vispco.cost.workload import Array, Workload


@dataclass(frozen=True)
class KvBytes(Cost):
    """Bytes of each sample's own entries in the KV cache. Padding that a batch adds is not counted.

    A layer with a sliding window of w tokens stores w - 1 entries at most, as transformers' dynamic cache does.

    generated: tokens that were written since the prefill.
    """

    name: ClassVar[str] = "kv-bytes"
    unit: ClassVar[str] = "bytes"

    generated: int = 0

    def price(self, counts: Tensor, workload: Workload) -> Tensor:
        """Bytes: counts [..., L] -> [...], int64, exact."""
        self.check_layers(counts)
        return self._bytes(workload.tokens(counts.long()))

    def relaxed(self, retention: Tensor, workload: Workload) -> Tensor:
        """Bytes: retention [..., L] -> [...], float64, differentiable."""
        self.check_layers(retention)
        return self._bytes(workload.tokens(workload.visual(retention)))

    def host_price(self, counts: Array, pricing: HostPricing) -> Array:
        return self._bytes(counts + pricing.text[:, None])

    def host_relaxed(self, retention: Array, pricing: HostPricing) -> Array:
        return self._bytes(retention * pricing.visual[:, None] + pricing.text[:, None])

    def _bytes(self, N: Numbers) -> Numbers:
        size = self.dimensions
        alike = [2 * size.kv_heads * size.head_dim] * size.num_layers
        numbers = alike if size.layers is None else [layer.entries for layer in size.layers]
        limit = like(np.array([ALL if window is None else window - 1 for window in size.windows]), N)
        entries = N + self.generated
        found: Numbers = ((entries - (entries - limit).clip(0)) * like(np.array(numbers) * size.dtype_bytes, N)).sum(-1)
        return found
