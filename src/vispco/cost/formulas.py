"""Costs that are one formula of the tokens in each layer: FLOPs (exact, and the paper's) and KV bytes; and FLOPs as torch counts them."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from vispco.cost.cost import Cost
from vispco.cost.host import ALL, HostPricing
from vispco.cost.workload import Array, Workload

_LEAST_SAVING = 0.01
"""Of the unpruned FLOPs. A drop is some fifty operations, about a layer's; where it saves less than this, it costs time."""
Numbers = TypeVar("Numbers", Array, Tensor)


def like(values: Array, numbers: Numbers) -> Numbers:
    """An array as the numbers that it meets: an array, or a tensor on their device."""
    return torch.from_numpy(values).to(numbers.device) if isinstance(numbers, Tensor) else values


@dataclass(frozen=True)
class FormulaCost(Cost):
    """A cost with one formula for whole tokens and for parts of them, for tensors and for arrays."""

    @abstractmethod
    def of_tokens(self, N: Numbers, networks: tuple[int, ...]) -> Numbers:
        """The price of N [..., L] tokens, text included, in each layer: [...]. networks: see `Workload.networks`."""

    def price(self, counts: Tensor, workload: Workload) -> Tensor:
        """The price of a prefill: counts [..., L] -> [...], int64, exact."""
        self.check_layers(counts)
        return self.of_tokens(workload.tokens(counts.long()), workload.networks(self.num_layers))

    def relaxed(self, retention: Tensor, workload: Workload) -> Tensor:
        """The price of a prefill: retention [..., L] -> [...], float64, differentiable."""
        self.check_layers(retention)
        return self.of_tokens(workload.tokens(workload.visual(retention)), workload.networks(self.num_layers))

    def host_price(self, counts: Array, pricing: HostPricing) -> Array:
        return self.of_tokens(counts + pricing.text[:, None], pricing.networks)

    def host_relaxed(self, retention: Array, pricing: HostPricing) -> Array:
        return self.of_tokens(retention * pricing.visual[:, None] + pricing.text[:, None], pricing.networks)


@dataclass(frozen=True)
class PolynomialCost(FormulaCost):
    """FLOPs of the decoder layers.

    A layer with N tokens costs attention * N + pairs * N^2 in its attention and ffn * N in its feed-forward network.
    Embedding and output head are the same for every schedule and are left out, as in the paper.
    """

    least_saving: ClassVar[float] = _LEAST_SAVING

    @property
    @abstractmethod
    def layer_flops(self) -> tuple[int, int, int]:
        """FLOPs of one layer: of attention per token and per pair of tokens, and of the feed-forward network per token."""

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """`layer_flops` of each layer; all alike unless a cost says otherwise."""
        attention, pairs, network = ((flops,) * self.num_layers for flops in self.layer_flops)
        return attention, pairs, network

    def of_tokens(self, N: Numbers, networks: tuple[int, ...]) -> Numbers:
        """N [..., L] is the N_i of the paper's appendix: [...]."""
        linear, quadratic = (like(values, N) for values in _coefficients(*self.sizes, networks))
        found: Numbers = (N * (linear + quadratic * N)).sum(-1)
        return found

    def host_most(self, counts: Array, member: Array, room: Array, budget: Array, pricing: HostPricing) -> Array:
        """By the root of a quadratic in place of a search."""
        full = np.maximum(pricing.full, 1)
        slack = host_limit(budget, full) - pricing.price(counts)
        N = counts + pricing.text[:, None]
        linear, pairs = _coefficients(*self.sizes, pricing.networks)
        # m more tokens in n layers cost slope * m + n * quadratic * m^2
        slope = ((linear + 2 * pairs * N) * member).sum(axis=1)
        quadratic = (pairs * member).sum(axis=1)
        chosen = pricing.choices
        if chosen is not None:
            slope = slope + ((chosen.linear + 2 * chosen.quadratic * counts) * member).sum(axis=1)
            quadratic = quadratic + (chosen.quadratic * member).sum(axis=1)
        # The root of price(m) = slack, in the form that does not cancel; then the integer next to it, exactly.
        known = slack.clip(0).astype(np.float64)
        root = np.sqrt(slope.astype(np.float64) ** 2 + 4.0 * quadratic * known)
        extra = np.floor(2 * known / np.maximum(slope + root, 1.0)).astype(np.int64) + 1
        for _ in range(2):
            extra = np.where(extra * (slope + quadratic * extra) > slack, extra - 1, extra)
        found: Array = np.minimum(extra, room).clip(0)
        return found

    def host_share(self, start: Array, direction: Array, budget: Array, pricing: HostPricing) -> Array:
        """By the root of a quadratic in place of a search."""
        linear, quadratic = _coefficients(*self.sizes, pricing.networks)
        N = start * pricing.visual[:, None] + pricing.text[:, None]
        slope = direction * pricing.visual[:, None]
        c = (N * (linear + quadratic * N)).sum(axis=1) - budget * pricing.full
        b = (slope * (linear + 2 * quadratic * N)).sum(axis=1)
        a = (quadratic * slope * slope).sum(axis=1)
        chosen = pricing.choices
        if chosen is not None:
            visual = start * pricing.visual[:, None]
            c = c + chosen.of_counts(visual)
            b = b + (slope * (chosen.linear + 2 * chosen.quadratic * visual)).sum(axis=1)
            a = a + (chosen.quadratic * slope * slope).sum(axis=1)
        below = np.sqrt(np.maximum(b * b - 4.0 * a * c, 0.0)) + b
        share = np.where(below > 0, -2.0 * c / np.where(below > 0, below, 1.0), 1.0)
        return np.where(c > 0, 0.0, share.clip(0.0, 1.0))


class Exact(PolynomialCost):
    """Every matrix multiplication of a decoder layer, two FLOPs a multiply-add, as torch's FlopCounterMode counts them.

    Knows grouped-query attention and gated feed-forward networks; for models whose layers are not all alike (experts,
    latent attention, shared keys, linear attention) the matrices of each layer are counted. Sliding-window layers cost
    N^2 like the others: their mask is dense, and dense attention multiplies what it then masks.
    """

    name: ClassVar[str] = "exact"

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        layers = self.dimensions.layers
        if layers is None:
            return super().sizes
        return tuple(size.mixer for size in layers), tuple(s.pairs for s in layers), tuple(s.network for s in layers)

    @property
    def layer_flops(self) -> tuple[int, int, int]:
        size = self.dimensions
        projections = 4 * size.hidden * size.heads * size.head_dim + 4 * size.hidden * size.kv_heads * size.head_dim
        return projections, 4 * size.heads * size.head_dim, (6 if size.gated else 4) * size.hidden * size.ffn


class Paper(PolynomialCost):
    """24 N D^2 + 4 N^2 D per layer (Section 3.1 and Appendix A): plain attention, and a plain FFN with D_ffn = 4 D."""

    name: ClassVar[str] = "paper"

    @property
    def layer_flops(self) -> tuple[int, int, int]:
        hidden = self.dimensions.hidden
        return 8 * hidden**2, 4 * hidden, 16 * hidden**2


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


@contextmanager
def counted_flops() -> Iterator[FlopCounterMode]:
    """Count FLOPs inside the block (`.get_total_flops()`), attention included.

    Attention runs as plain products: the counter does not see the fused kernel of a CPU.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        yield counter


@lru_cache(maxsize=256)
def _coefficients(
    attention: tuple[int, ...], pairs: tuple[int, ...], ffn: tuple[int, ...], networks: tuple[int, ...]
) -> tuple[Array, Array]:
    """FLOPs per token that enters each layer, and per pair of them: int64 [L] each.

    networks: how many feed-forward networks, in their order, process the tokens that enter each layer.
    """
    linear = np.array(attention, dtype=np.int64)
    owners = [layer for layer, number in enumerate(networks) for _ in range(number)]
    for network, layer in enumerate(owners):
        linear[layer] += ffn[network]
    return linear, np.array(pairs, dtype=np.int64)


def host_limit(budget: Array, full: Array) -> Array:
    """The largest integer price F with F / full <= budget in float64: budget [n], full [n] (int64) -> [n]."""
    whole = full.astype(np.float64)
    limit = np.floor(budget * whole).astype(np.int64)
    limit = np.where((limit + 1) / whole <= budget, limit + 1, limit)
    return np.where(limit / whole <= budget, limit, limit - 1)
