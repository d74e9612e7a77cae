"""Bytes of the KV cache."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from vispco.cost.host import ALL
from vispco.cost.polynomial import FormulaCost, Numbers, like


@dataclass(frozen=True)
class KvBytes(FormulaCost):
    """Bytes of each sample's own entries in the KV cache. Padding that a batch adds is not counted.

    A layer with a sliding window of w tokens stores w - 1 entries at most, as transformers' dynamic cache does.

    generated: tokens that were written since the prefill.
    """

    name: ClassVar[str] = "kv-bytes"
    unit: ClassVar[str] = "bytes"

    generated: int = 0

    def of_tokens(self, N: Numbers, networks: tuple[int, ...]) -> Numbers:  # noqa: ARG002
        """Bytes of N [..., L] tokens, text included: [...]."""
        size = self.dimensions
        alike = [2 * size.kv_heads * size.head_dim] * size.num_layers
        numbers = alike if size.layers is None else [layer.entries for layer in size.layers]
        limit = like(np.array([ALL if window is None else window - 1 for window in size.windows]), N)
        entries = N + self.generated
        found: Numbers = ((entries - (entries - limit).clip(0)) * like(np.array(numbers) * size.dtype_bytes, N)).sum(-1)
        return found
