"""Costs that are a polynomial in the tokens of each layer, with closed forms."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from vispco.cost.cost import Cost
from vispco.cost.workload import Workload


@dataclass(frozen=True)
class PolynomialCost(Cost):
    """FLOPs of the decoder layers.

    A layer with N tokens costs attention_linear * N + attention_quadratic * N^2 in its attention and ffn_linear * N in its
    feed-forward network. Embedding and output head are the same for every schedule and are left out, as in the paper.
    """

    @property
    @abstractmethod
    def attention_linear(self) -> int:
        """FLOPs of the four projections of attention, per token."""

    @property
    @abstractmethod
    def attention_quadratic(self) -> int:
        """FLOPs of scores and weighted values, per pair of tokens."""

    @property
    @abstractmethod
    def ffn_linear(self) -> int:
        """FLOPs of the feed-forward network, per token."""

    def linear(self, workload: Workload) -> Tensor:
        """FLOPs per token that enters layer i, without its part in the attention matrix: [L], int64."""
        return _weights(self.attention_linear, self.ffn_linear, workload.networks(self.num_layers))

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
        return (N * (self.linear(workload).to(N.device) + self.attention_quadratic * N)).sum(dim=-1)

    def fill(self, counts: Tensor, budget: Tensor, workload: Workload, most: int) -> Tensor:
        """As in `Cost.fill`, by the root of a quadratic in place of a search."""
        full = self.full(workload)
        slack = price_limit(budget, full.clamp_min(1)) - self.price(counts, workload)
        linear, quadratic = self.linear(workload).tolist(), self.attention_quadratic
        columns = list(counts.unbind(dim=-1))
        before = workload.num_visual
        for layer, count in enumerate(columns):
            N = workload.num_text + count
            slope = linear[layer] + 2 * quadratic * N  # m more tokens cost slope * m + quadratic * m^2

            def price(m: Tensor, slope: Tensor = slope) -> Tensor:
                return m * (slope + quadratic * m)

            # The root of price(m) = slack, in the form that does not cancel; then the integer next to it, exactly.
            root = (slope.double() ** 2 + 4.0 * quadratic * slack.double()).sqrt()
            extra = (2 * slack.double() / (slope.double() + root)).floor().long() + 1
            for _ in range(2):
                extra = torch.where(price(extra) > slack, extra - 1, extra)
            extra = torch.minimum(extra, before - count).clamp(0, most)
            slack = slack - price(extra)
            before = columns[layer] = count + extra
        return torch.stack(columns, dim=-1)


@lru_cache(maxsize=256)
def _weights(attention: int, ffn: int, networks: tuple[int, ...]) -> Tensor:
    return torch.tensor([attention + ffn * number for number in networks], dtype=torch.int64)


def price_limit(budget: Tensor, full: Tensor) -> Tensor:
    """The largest integer price F with F / full <= budget in float64: budget [B], full [B] (int64) -> [B]."""
    whole = full.double()
    limit = (budget * whole).floor().long()
    limit = torch.where((limit + 1).double() / whole <= budget, limit + 1, limit)
    return torch.where(limit.double() / whole <= budget, limit, limit - 1)
