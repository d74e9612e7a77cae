"""What a schedule costs: FLOPs of the decoder layers, differentiable in the retention, and bytes of the KV cache."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

import torch
from torch import Tensor

from vispco.cost.dimensions import Dimensions
from vispco.errors import InvalidInputError

# Where tokens leave: at the entry of a layer, or in its middle, between attention and feed-forward network.
Site: TypeAlias = Literal["entry", "mid"]
Number: TypeAlias = int | float | Tensor


@dataclass(frozen=True)
class CostModel(ABC):
    """FLOPs of the language model's decoder layers, as a polynomial in the number of tokens of each layer.

    A layer with N tokens costs attention_linear * N + attention_quadratic * N^2 in its attention and ffn_linear * N in its
    feed-forward network. Embedding and output head are the same for every schedule and are left out, as in the paper.
    """

    name: ClassVar[str]

    dimensions: Dimensions

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

    @property
    def num_layers(self) -> int:
        return self.dimensions.num_layers

    def linear(self, site: Site = "entry") -> Tensor:
        """FLOPs per token that *enters* layer i, without its part in the attention matrix: [L], int64.

        At "mid", what enters layer i + 1 is what the feed-forward network of layer i has seen, so a token that enters
        layer i is paid for in the feed-forward network before it; the last network sees what the last attention saw.
        """
        if site not in ("entry", "mid"):
            raise InvalidInputError(f'site={site!r} was given. Tokens leave at the "entry" of a layer or "mid" in it.')
        networks = torch.ones(self.num_layers, dtype=torch.int64)
        if site == "mid":
            networks[0] -= 1
            networks[-1] += 1
        return self.attention_linear + self.ffn_linear * networks

    def flops(self, retention: Tensor, num_text: Number, num_visual: Number, *, site: Site = "entry") -> Tensor:
        """FLOPs of a prefill: retention [..., L], numbers of tokens [...] or scalars -> [...], float64, differentiable."""
        self._check_layers(retention)
        device = retention.device
        text, visual = (
            torch.as_tensor(n, dtype=torch.float64, device=device)[..., None] for n in (num_text, num_visual)
        )
        N = text + retention.double() * visual  # the N_i of the paper's appendix: [..., L]
        return (N * (self.linear(site).to(device) + self.attention_quadratic * N)).sum(dim=-1)

    def flops_of_counts(self, counts: Tensor, num_text: int | Tensor, *, site: Site = "entry") -> Tensor:
        """FLOPs of whole visual tokens: counts [..., L] and num_text [...] (integers) -> [...], int64, to the digit."""
        self._check_layers(counts)
        N = counts.long() + torch.as_tensor(num_text, dtype=torch.int64, device=counts.device)[..., None]
        return (N * (self.linear(site).to(counts.device) + self.attention_quadratic * N)).sum(dim=-1)

    def full(self, num_text: int | Tensor, num_visual: int | Tensor) -> Tensor:
        """FLOPs of the unpruned model: [...], int64."""
        visual = torch.as_tensor(num_visual, dtype=torch.int64)
        return self.flops_of_counts(visual[..., None].expand(*visual.shape, self.num_layers), num_text)

    def floor(
        self, num_text: int | Tensor, num_visual: int | Tensor, *, site: Site = "entry", first_full: bool = True
    ) -> Tensor:
        """FLOPs of the text alone: [...], int64; with `first_full`, after a layer 0 that still sees every visual token."""
        visual = torch.as_tensor(num_visual, dtype=torch.int64)
        counts = visual.new_zeros(*visual.shape, self.num_layers)
        if first_full:
            counts[..., 0] = visual
        return self.flops_of_counts(counts, num_text, site=site)

    def fraction(self, retention: Tensor, num_text: Number, num_visual: Number, *, site: Site = "entry") -> Tensor:
        """FLOPs as a fraction of the unpruned model's for the same sample: [...], float64, differentiable."""
        whole = self.flops(torch.ones_like(retention), num_text, num_visual)
        return self.flops(retention, num_text, num_visual, site=site) / whole

    def kv_bytes(self, counts: Tensor, num_text: int | Tensor, *, generated: int = 0) -> Tensor:
        """Bytes of each sample's own entries in the KV cache: counts [..., L] -> [...], int64.

        A layer with a sliding window of w tokens stores w - 1 entries at most, as transformers' dynamic cache does.
        Padding that a batch adds is not counted.
        """
        self._check_layers(counts)
        N = counts.long() + torch.as_tensor(num_text, dtype=torch.int64, device=counts.device)[..., None] + generated
        unlimited = torch.iinfo(torch.int64).max
        limit = [unlimited if window is None else window - 1 for window in self.dimensions.windows]
        entries = torch.minimum(N, torch.tensor(limit, device=counts.device)).sum(dim=-1)
        return entries * (2 * self.dimensions.kv_heads * self.dimensions.head_dim * self.dimensions.dtype_bytes)

    def _check_layers(self, values: Tensor) -> None:
        if values.ndim < 1 or values.shape[-1] != self.num_layers:
            raise InvalidInputError(
                f"Values of shape {list(values.shape)} were given to the cost model of a language model with "
                f"{self.num_layers} layers. Give [..., {self.num_layers}]."
            )
