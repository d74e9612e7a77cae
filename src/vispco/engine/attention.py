"""Taps on transformers' attention function: the one place where queries and keys are read and keys are masked.

An attention module looks up its function by a name in its config. While a tap is installed, the module has a view of its config
in which that name leads to `attend`, which hands every call to the tap before the model's own function runs. So query, key,
mask, scale, soft-cap and sinks are seen as the layer really uses them, whatever norms or rotary embeddings came before. The
config itself, which other models may share, is never written to.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from vispco.core.errors import UnsupportedModelError

PREFIX = "vispco_"
FLASH = ("flash_attention_2", "flash_attention_3", "flash_attention_4")
Attended: TypeAlias = tuple[Tensor, Tensor | None]


@dataclass(eq=False)
class AttentionCall:
    """One call of an attention function.

    query: [B, H, M, d]; key, value: [B, H_kv, K, d], the cached ones first. mask: [B or 1, 1, M, K] boolean or additive,
    [B, K] boolean (flash attention), or None. options: the rest of the call (`scaling`, `softcap`, `s_aux`, ...).

    What follows from them, as transformers' own functions read it: scale and softcap of the logits; sinks: logits [H] of an extra
    key that takes attention and gives nothing; is_causal: whether a call without a mask hides the future.
    """

    module: nn.Module
    query: Tensor
    key: Tensor
    value: Tensor | None
    mask: Tensor | None
    options: dict[str, Any] = field(default_factory=dict)
    scale: float = field(init=False)
    softcap: float | None = field(init=False)
    sinks: Tensor | None = field(init=False)
    is_causal: bool = field(init=False)

    def __post_init__(self) -> None:
        scale, causal = self.options.get("scaling"), self.options.get("is_causal")
        self.scale = float(self.query.shape[-1] ** -0.5 if scale is None else scale)
        self.softcap, self.sinks = self.options.get("softcap"), self.options.get("s_aux")
        self.is_causal = bool(getattr(self.module, "is_causal", True) if causal is None else causal)

    def of_head(self, head: int) -> AttentionCall:
        """The part of one query head."""
        shared = head * self.key.shape[1] // self.query.shape[1]
        query, key = self.query[:, head : head + 1], self.key[:, shared : shared + 1]
        return replace(self, query=query, key=key, value=None)

    def run(self) -> Attended:
        """The model's own attention function on this call, as its file looks it up."""
        module: Any = self.module
        home: Any = sys.modules[type(module).__module__]
        name = implementation_of(module)
        if name == "eager":
            function = home.eager_attention_forward
        else:
            function = getattr(home, "ALL_ATTENTION_FUNCTIONS", ALL_ATTENTION_FUNCTIONS)[name]
        if name in FLASH:
            module = _WithOwnName(module)  # flash attention reads the implementation's name from the config
        out: Attended = function(module, self.query, self.key, self.value, self.mask, **self.options)
        return out


class ProbedCall(Exception):  # noqa: N818 - it carries a result out of a layer that need not go on
    """Ends a layer at its attention call, where only that was wanted."""

    def __init__(self, call: AttentionCall) -> None:
        self.call = call


class _TappedConfig:
    """A module's own view of its config while taps are on it: the same, but for the name of the attention function.

    Other modules, and other models, may have the same config, and do not notice. A copy of the view is a copy of the config.
    """

    plain: Any
    dense: bool
    taps: list[tuple[AttentionTap, int]]

    def __init__(self, config: Any, *, dense: bool = False) -> None:
        vars(self).update(plain=config, dense=dense, taps=[])

    @property
    def _attn_implementation(self) -> str:
        """The name under which `attend` is registered over the module's own function, registered now if it is not."""
        own: str = self.plain._attn_implementation  # noqa: SLF001 - transformers' only name for it
        if own.startswith(PREFIX):
            return own
        own = "sdpa" if self.dense and own in FLASH else own
        name = PREFIX + own
        if name not in ALL_ATTENTION_FUNCTIONS:
            AttentionMaskInterface.register(name, eager_mask if own == "eager" else ALL_MASK_ATTENTION_FUNCTIONS[own])
            AttentionInterface.register(name, attend)
        return name

    def get_text_config(self, *args: Any, **kwargs: Any) -> Any:
        """The view of the language model's part of a whole model's config."""
        found = self.plain.get_text_config(*args, **kwargs)
        return self if found is self.plain else _TappedConfig(found, dense=self.dense)

    def __getattr__(self, name: str) -> Any:
        return getattr(vars(self)["plain"], name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.plain, name, value)

    def __reduce_ex__(self, _: Any) -> Any:
        return copy, (self.plain,)


@dataclass(frozen=True, eq=False)
class AttentionTap:
    """Hands the attention calls of some modules, by layer, to a handler while it is installed.

    handler: (layer, call) -> what the attention function returns. dense_for: the modules that make these layers' masks, if
    sdpa is to run in place of flash attention, so that masks are given row by row.
    """

    modules: Mapping[int, nn.Module]
    handler: Callable[[int, AttentionCall], Attended]
    dense_for: Sequence[nn.Module] = ()

    def install(self) -> None:
        with _LOCK:
            for index, module in (*self.modules.items(), *((-1, module) for module in self.dense_for)):
                view = module.__dict__["config"]
                if not isinstance(view, _TappedConfig):
                    view = module.__dict__["config"] = _TappedConfig(view, dense=bool(self.dense_for))
                view.taps.append((self, index))

    def remove(self) -> None:
        """Safe in any state."""
        with _LOCK:
            for module in (*self.modules.values(), *self.dense_for):
                view = module.__dict__.get("config")
                if isinstance(view, _TappedConfig):
                    view.taps[:] = [found for found in view.taps if found[0] is not self]
                    if not view.taps:
                        module.__dict__["config"] = view.plain


_LOCK = threading.Lock()


def attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **options: Any
) -> Attended:
    """A transformers attention function: the model's own one, seen by the tap of the module that was installed last."""
    config: Any = module.config
    call = AttentionCall(module, query, key, value, attention_mask, options)
    if not isinstance(config, _TappedConfig) or not config.taps:
        return call.run()
    tap, index = config.taps[-1]
    return tap.handler(index, call)


def attend_masked(call: AttentionCall, key_mask: Tensor) -> Attended:
    """Attention in which each key's weight is multiplied by its mask and the row is renormalised; key_mask float [B, K].

        a_ij = m_j exp(l_ij) / sum_k m_k exp(l_ik),    with m_i = 1 in row i itself.

    With m in {0, 1} that is attention without the masked keys, exactly, and unlike an additive -inf it has a gradient in
    m_j where m_j = 0, which tells a search what a dropped token would have been worth.
    """
    query, key, value = call.query, call.key, call.value
    assert value is not None  # noqa: S101 - only recorded calls are without
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, 1), value.repeat_interleave(groups, 1)
    logits = (query @ key.transpose(2, 3)).float() * call.scale
    if call.softcap is not None:
        logits = torch.tanh(logits / call.softcap) * call.softcap
    closed = torch.finfo(torch.float32).min
    if call.mask is None:
        if call.is_causal:
            future = torch.ones(logits.shape[-2:], dtype=torch.bool, device=logits.device).triu(1)
            logits = logits.masked_fill(future, closed)
    elif call.mask.dtype == torch.bool:
        logits = logits.masked_fill(~call.mask, closed)
    else:
        logits = logits + call.mask.float()
    own = torch.eye(logits.shape[-1], device=logits.device)
    weight = key_mask[:, None, None, :].float()
    weight = weight + (1 - weight) * own  # [B, 1, N, N]: a token is never hidden from itself
    top = logits.detach().amax(-1, keepdim=True)
    if call.sinks is not None:
        top = torch.maximum(top, call.sinks.detach().float().view(1, -1, 1, 1))
    unnormalised = (logits - top).exp() * weight
    total = unnormalised.sum(-1, keepdim=True)
    if call.sinks is not None:
        total = total + (call.sinks.float().view(1, -1, 1, 1) - top).exp()
    attention = (unnormalised / total).to(value.dtype)
    return (attention @ value).transpose(1, 2).contiguous(), attention


def check_flash_window(config: Any, length: int) -> None:
    """Refuse a sequence beyond a sliding window: flash attention counts it in tokens, after pruning not in positions."""
    window = getattr(config, "sliding_window", None)
    types = getattr(config, "layer_types", None) or ()
    if window is not None and "sliding_attention" in types and length >= window:
        raise UnsupportedModelError(
            f"Flash attention cannot keep this model's sliding window of {window} exact once tokens are dropped "
            f"(the sequence has {length}). Call model.set_attn_implementation('sdpa')."
        )


def implementation_of(module: Any) -> str:
    """The name of the attention function that a module, or a model, runs without a tap."""
    return str(module.config._attn_implementation).removeprefix(PREFIX)  # noqa: SLF001


class _WithOwnName:
    """A module whose config tells the name of its own attention function, as it does without a tap."""

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        config: Any = module.config
        self.config = config.plain if isinstance(config, _TappedConfig) else config

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)
