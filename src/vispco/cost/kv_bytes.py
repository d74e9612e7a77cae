"""Bytes of the KV cache."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.host import ALL, HostPricing
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
        return self._host_bytes(counts + pricing.text[:, None])

    def host_relaxed(self, retention: Array, pricing: HostPricing) -> Array:
        return self._host_bytes(retention * pricing.visual[:, None] + pricing.text[:, None])

    def _host_bytes(self, N: Array) -> Array:
        size = self.dimensions
        limit = np.array([ALL if window is None else window - 1 for window in size.windows])
        found: Array = (np.minimum(N + self.generated, limit) * np.array(self._entry_bytes)).sum(axis=-1)
        return found

    def _bytes(self, N: Tensor) -> Tensor:
        size = self.dimensions
        limit = [torch.iinfo(torch.int64).max if window is None else window - 1 for window in size.windows]
        entries = torch.minimum(N + self.generated, torch.tensor(limit, device=N.device))
        return (entries * torch.tensor(self._entry_bytes, device=N.device)).sum(dim=-1)

    @property
    def _entry_bytes(self) -> list[int]:
        """Bytes that each layer keeps for a token."""
        size = self.dimensions
        alike = [2 * size.kv_heads * size.head_dim] * size.num_layers
        numbers = alike if size.layers is None else [layer.entries for layer in size.layers]
        return [number * size.dtype_bytes for number in numbers]
