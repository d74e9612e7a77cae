"""The same schedule as a mask: every token stays, dropped ones are no key to anyone. For search, not for speed.

Inside softmax each key's weight is multiplied by its mask and the row is renormalised:

    a_ij = m_j exp(l_ij) / sum_k m_k exp(l_ik),    with m_i = 1 in row i itself and for text always.

With m in {0, 1} that is what dropping computes, exactly, at every token that is left; and unlike an additive -inf it
has a gradient in m_j where m_j = 0, which tells a search what a dropped token would have been worth.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vispco.engine.choosing import Pass
from vispco.engine.gather import spread

PREFIX = "vispco_masked_"
_KEY_MASKS: WeakKeyDictionary[nn.Module, Tensor] = WeakKeyDictionary()
"""The mask over keys that an attention module has to apply now; none for most modules, most of the time."""

Relaxation = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(scores [B, V], live [B, V], keep [B, V], retention [B]) -> mask [B, V]: `keep` in value, with a gradient of its own."""


class MaskPass(Pass):
    """Dropped tokens go on, unseen."""

    def __init__(self, *args: Any, relaxation: Relaxation | None = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.relaxation = relaxation
        self.mask: Tensor | None = None  # float [B, V], the product of all choices so far

    def enter_layer(
        self, layer: int, hidden: Tensor, kwargs: dict[str, Any], attention: nn.Module
    ) -> tuple[Tensor, dict[str, Any]]:
        if self.choose(layer, hidden):
            hidden = self.merged(hidden)
        if self.mask is not None:
            keys = torch.ones(self.layout.visual.shape, device=hidden.device)
            _KEY_MASKS[attention] = spread(self.mask, self.layout.visual_index, keys)
        self.note()
        return hidden, kwargs

    def _apply_choice(self, layer: int, scores: Tensor, keep: Tensor) -> None:
        chosen = keep.float()
        retention = None if self.plan is None else self.plan.retention
        if self.relaxation is not None and retention is not None and self.live is not None:
            chosen = self.relaxation(scores, self.live, keep, retention[:, layer])
        self.mask = chosen if self.mask is None else self.mask * chosen

    def barred_keys(self, held: int) -> Tensor | None:  # noqa: ARG002 - a mask pass has no past
        if self.mask is None or self.live is None:
            return None
        return self.layout.visual & ~spread(self.live, self.layout.visual_index, torch.zeros_like(self.layout.visual))


def forget(attention: nn.Module) -> None:
    """Take the key mask off an attention module."""
    _KEY_MASKS.pop(attention, None)


def masked_attention(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """A transformers attention function: the model's own one, but for modules that have a key mask."""
    key_mask = _KEY_MASKS.get(module)
    if key_mask is None:
        out: tuple[Tensor, Tensor | None] = _own_function(module)(module, query, key, value, attention_mask, **kwargs)
        return out
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    scale = kwargs.get("scaling") or query.shape[-1] ** -0.5
    logits = (query @ key.transpose(2, 3)).float() * scale
    if (cap := kwargs.get("softcap")) is not None:
        logits = torch.tanh(logits / cap) * cap
    closed = torch.finfo(torch.float32).min
    if attention_mask is None:
        future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
        logits = logits.masked_fill(future, closed)
    elif attention_mask.dtype == torch.bool:
        logits = logits.masked_fill(~attention_mask, closed)
    else:
        logits = logits + attention_mask.float()
    own = torch.eye(logits.shape[-1], device=logits.device)
    weight = key_mask[:, None, None, :].float()
    weight = weight + (1 - weight) * own  # [B, 1, N, N]: a token is never hidden from itself
    unnormalised = (logits - logits.detach().amax(-1, keepdim=True)).exp() * weight
    attention = (unnormalised / unnormalised.sum(-1, keepdim=True)).to(value.dtype)
    return (attention @ value).transpose(1, 2).contiguous(), attention


def _own_function(module: nn.Module) -> Callable[..., tuple[Tensor, Tensor | None]]:
    config: Any = module.config
    name = config._attn_implementation.removeprefix(PREFIX)  # noqa: SLF001 - transformers' only name for it
    if name == "eager":
        own: Any = sys.modules[type(module).__module__].eager_attention_forward
        return own  # type: ignore[no-any-return]
    return ALL_ATTENTION_FUNCTIONS[name]  # type: ignore[no-any-return]


def masked_name(implementation: str) -> str:
    """The registered name of masked attention over a model's own implementation."""
    name = PREFIX + implementation
    if name not in ALL_ATTENTION_FUNCTIONS:
        masks = eager_mask if implementation == "eager" else ALL_MASK_ATTENTION_FUNCTIONS[implementation]
        AttentionMaskInterface.register(name, masks)
        AttentionInterface.register(name, masked_attention)
    return name
