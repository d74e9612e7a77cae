"""Costs that are a polynomial in the tokens of each layer, with closed forms."""

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.host import HostPricing, as_array
from vispco.cost.layer_flops import LayerFlops
from vispco.cost.workload import Array, Workload

LEAST_SAVING = 0.01
"""Of the unpruned FLOPs. A drop is some fifty operations, about a layer's; where it saves less than this, it costs time."""


@dataclass(frozen=True)
class PolynomialCost(Cost):
    """FLOPs of the decoder layers.

    A layer with N tokens costs attention_linear * N + attention_quadratic * N^2 in its attention and ffn_linear * N in its
    feed-forward network. Embedding and output head are the same for every schedule and are left out, as in the paper.
    """

    @property
    @abstractmethod
    def layer_flops(self) -> LayerFlops:
        """attention_linear, attention_quadratic and ffn_linear."""

    @property
    def attention_linear(self) -> int:
        """FLOPs of the four projections of attention, per token."""
        return self.layer_flops[0]

    @property
    def attention_quadratic(self) -> int:
        """FLOPs of scores and weighted values, per pair of tokens."""
        return self.layer_flops[1]

    @property
    def ffn_linear(self) -> int:
        """FLOPs of the feed-forward network, per token."""
        return self.layer_flops[2]

    @property
    def least_saving(self) -> float:
        return LEAST_SAVING

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        """attention_linear, attention_quadratic and ffn_linear of each layer; all alike unless a cost says otherwise."""
        attention, pairs, network = ((flops,) * self.num_layers for flops in self.layer_flops)
        return attention, pairs, network

    @property
    def quadratic(self) -> Array:
        """FLOPs per pair of tokens, by layer: int64 [L]."""
        return _host_vector(self.sizes[1])

    def linear(self, workload: Workload) -> Tensor:
        """FLOPs per token that enters layer i, without its part in the attention matrix: [L], int64."""
        attention, _, ffn = self.sizes
        return _weights(attention, ffn, workload.networks(self.num_layers))

    def price(self, counts: Tensor, workload: Workload) -> Tensor:
        """FLOPs of a prefill: counts [..., L] -> [...], int64, exact."""
        self.check_layers(counts)
        return self._polynomial(workload.tokens(counts.long()), workload)

    def relaxed(self, retention: Tensor, workload: Workload) -> Tensor:
        """FLOPs of a prefill: retention [..., L] -> [...], float64, differentiable."""
        self.check_layers(retention)
        return self._polynomial(workload.tokens(workload.visual(retention)), workload)

    def _polynomial(self, N: Tensor, workload: Workload) -> Tensor:
        """N [..., L] is the N_i of the paper's appendix."""
        quadratic = torch.from_numpy(self.quadratic).to(N.device)
        return (N * (self.linear(workload).to(N.device) + quadratic * N)).sum(dim=-1)

    def host_price(self, counts: Array, pricing: HostPricing) -> Array:
        return self._host(counts + pricing.text[:, None], pricing)

    def host_relaxed(self, retention: Array, pricing: HostPricing) -> Array:
        return self._host(retention * pricing.visual[:, None] + pricing.text[:, None], pricing)

    def _host(self, N: Array, pricing: HostPricing) -> Array:
        found: Array = (N * (self._host_linear(pricing) + self.quadratic * N)).sum(axis=-1)
        return found

    def _host_linear(self, pricing: HostPricing) -> Array:
        attention, _, ffn = self.sizes
        return _host_weights(attention, ffn, pricing.networks)

    def host_most(self, counts: Array, member: Array, room: Array, budget: Array, pricing: HostPricing) -> Array:
        """By the root of a quadratic in place of a search."""
        full = np.maximum(pricing.full, 1)
        slack = _host_limit(budget, full) - pricing.price(counts)
        N = counts + pricing.text[:, None]
        # m more tokens in n layers cost slope * m + n * quadratic * m^2
        slope = ((self._host_linear(pricing) + 2 * self.quadratic * N) * member).sum(axis=1)
        quadratic = (self.quadratic * member).sum(axis=1)
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
        linear, quadratic = self._host_linear(pricing), self.quadratic
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


@lru_cache(maxsize=256)
def _host_vector(values: tuple[int, ...]) -> Array:
    return np.array(values, dtype=np.int64)


@lru_cache(maxsize=256)
def _host_weights(attention: tuple[int, ...], ffn: tuple[int, ...], networks: tuple[int, ...]) -> Array:
    """networks: how many feed-forward networks, in their order, process the tokens that enter each layer."""
    found = np.array(attention, dtype=np.int64)
    owners = [layer for layer, number in enumerate(networks) for _ in range(number)]
    for network, layer in enumerate(owners):
        found[layer] += ffn[network]
    return found


@lru_cache(maxsize=256)
def _weights(attention: tuple[int, ...], ffn: tuple[int, ...], networks: tuple[int, ...]) -> Tensor:
    return torch.from_numpy(_host_weights(attention, ffn, networks))


def _host_limit(budget: Array, full: Array) -> Array:
    """The largest integer price F with F / full <= budget in float64: budget [n], full [n] (int64) -> [n]."""
    whole = full.astype(np.float64)
    limit = np.floor(budget * whole).astype(np.int64)
    limit = np.where((limit + 1) / whole <= budget, limit + 1, limit)
    return np.where(limit / whole <= budget, limit, limit - 1)


def price_limit(budget: Tensor, full: Tensor) -> Tensor:
    """`_host_limit` of tensors."""
    return torch.from_numpy(_host_limit(as_array(budget), as_array(full)))
