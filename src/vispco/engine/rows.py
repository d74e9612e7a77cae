"""Rows of a layer's attention map, from its queries and keys: what a scorer reads, whatever kernel the model runs.

SDPA and flash attention return no weights. The rows that a scorer names are computed again here, and only those: for
one query that is one row; for all visual queries it is done in blocks, so that no N x N map exists at any time.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from vispco.engine.gather import take
from vispco.errors import UnsupportedModelError

Heads = Literal["mean", "max"]
BLOCK_ELEMENTS = 1 << 22
"""How many attention weights may be in memory at a time while rows are summed up."""


@dataclass
class AttentionReader:
    """One layer's attention, ready to give rows: raw projections as the layer computed them, and how it used them.

    query, key: [B, M, heads * head_dim] as they left q_proj and k_proj. past_keys: [B, H_kv, P, d] rotated, or None.
    all_keys: [B, H_kv, P + M, d] rotated, where the cache holds them already (then `key` is not needed).
    mask: what the layer was given. barred: bool [B, P + M], keys that masks hide from every query, or None.
    """

    module: nn.Module
    query: Tensor
    key: Tensor | None
    position_embeddings: tuple[Tensor, Tensor]
    mask: Tensor | None
    all_keys: Tensor | None = None
    past_keys: Tensor | None = None
    barred: Tensor | None = None

    def keys(self) -> Tensor:
        """All keys after rotation; [B, H_kv, K, d]."""
        if self.all_keys is None:
            if self.key is None:
                raise UnsupportedModelError("The keys of this layer were not recorded: it has no k_proj to read.")
            heads = self._heads(self.key, "k_norm")
            rotated = self._rotate(heads, *self.position_embeddings)
            self.all_keys = rotated if self.past_keys is None else torch.cat([self.past_keys, rotated], dim=2)
        return self.all_keys

    def mass(
        self, rows: Tensor, columns: Tensor, *, heads: Heads, weights: Tensor | None, present: Tensor | None
    ) -> Tensor:
        """Attention that `columns` [B, V] receive from `rows` [B, R], summed over rows. float32 [B, V].

        Both index this pass's tokens (0..M-1). `present` bool [B, R] leaves rows out, `weights` [B, R] weighs them.
        The head dimension is reduced by mean or max first, row by row.
        """
        keys = self.keys()
        rows, columns = rows.to(keys.device), columns.to(keys.device)
        shift = keys.shape[2] - self.query.shape[1]
        factor = torch.ones(rows.shape, device=keys.device) if weights is None else weights.float().to(keys.device)
        factor = factor if present is None else factor * present.to(keys.device)
        num_heads = self.query.shape[2] // keys.shape[3]
        block = max(1, BLOCK_ELEMENTS // max(1, rows.shape[0] * num_heads * keys.shape[2]))
        total = torch.zeros(columns.shape, device=keys.device)
        for start in range(0, rows.shape[1], block):
            part = slice(start, start + block)
            weight = self._weights(rows[:, part], keys)  # [B, H, r, K]
            flat = weight.mean(1) if heads == "mean" else weight.amax(1)
            mass = (flat * factor[:, part, None]).sum(1)
            total += mass.gather(1, columns + shift)
        return total

    def _weights(self, rows: Tensor, keys: Tensor) -> Tensor:
        """softmax(q k^T) for some queries; float32 [B, H, R, K]."""
        cos, sin = self.position_embeddings
        query = self._rotate(self._heads(take(self.query, rows), "q_norm"), take(cos, rows), take(sin, rows))
        batch, num_heads, count, dim = query.shape
        kv_heads = keys.shape[1]
        grouped = query.reshape(batch, kv_heads, num_heads // kv_heads * count, dim)  # query heads share keys
        logits = (grouped @ keys.transpose(2, 3)).view(batch, num_heads, count, -1).float() * self._scale(dim)
        if (cap := getattr(self.module, "attn_logit_softcapping", None)) is not None:
            logits = torch.tanh(logits / cap) * cap
        return self._masked(logits, rows).softmax(-1)

    def _masked(self, logits: Tensor, rows: Tensor) -> Tensor:
        keys = logits.shape[3]
        if self.mask is None:
            shift = keys - self.query.shape[1]
            future = torch.arange(keys, device=rows.device) > rows[:, :, None] + shift
            logits = logits.masked_fill(future[:, None], -torch.inf)
        elif self.mask.dim() == 2:  # flash: padding only, causal by itself
            shift = keys - self.query.shape[1]
            future = torch.arange(keys, device=rows.device) > rows[:, :, None] + shift
            hidden = future[:, None] | ~self.mask.bool()[:, None, None, -keys:]
            logits = logits.masked_fill(hidden, torch.finfo(logits.dtype).min)
        else:
            mask = take(self.mask[:, 0], rows)[:, None]  # [B, 1, R, K]
            if mask.dtype == torch.bool:
                logits = logits.masked_fill(~mask, torch.finfo(logits.dtype).min)
            else:
                logits = logits + mask.float()
        if self.barred is not None:
            logits = logits.masked_fill(self.barred[:, None, None, :], torch.finfo(logits.dtype).min)
        return logits

    def _heads(self, projected: Tensor, norm: str) -> Tensor:
        """[B, M, heads * d] -> [B, heads, M, d], normalised if the family does that (Gemma3's q_norm and k_norm)."""
        dim = head_dim(self.module)
        heads = projected.view(*projected.shape[:2], -1, dim).transpose(1, 2)
        layer = getattr(self.module, norm, None)
        return heads if layer is None else layer(heads)

    def _rotate(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """The model's own rotary function, on keys alone (its query side gets no heads, so it costs nothing)."""
        rotated: Tensor = rotary_function(self.module)(x[:, :0], x, cos, sin)[1]
        return rotated

    def _scale(self, dim: int) -> float:
        return float(getattr(self.module, "scaling", dim**-0.5))


def head_dim(module: nn.Module) -> int:
    found: Any = getattr(module, "head_dim", None)
    if found is None:
        raise UnsupportedModelError(f"{type(module).__name__} does not say its head_dim, which scoring needs.")
    return int(found)


def rotary_function(module: nn.Module) -> Any:
    """`apply_rotary_pos_emb` of the file that defines the attention class."""
    function = getattr(sys.modules[type(module).__module__], "apply_rotary_pos_emb", None)
    if function is None or len(inspect.signature(function).parameters) < 4:
        raise UnsupportedModelError(
            f"{type(module).__module__} has no apply_rotary_pos_emb(q, k, cos, sin), so attention scores cannot be "
            "computed for it. Use a scorer without attention (e.g. 'random'), or add a model family."
        )
    return function


def check_readable(module: nn.Module) -> None:
    """Say at the start, not in the middle of a prefill, that attention scores cannot be had."""
    for name in ("q_proj", "k_proj"):
        if not isinstance(getattr(module, name, None), nn.Module):
            raise UnsupportedModelError(
                f"{type(module).__name__} has no {name}, so attention scores cannot be computed for it. "
                "Use a scorer without attention (e.g. 'random'), or add a model family."
            )
    head_dim(module)
    rotary_function(module)
