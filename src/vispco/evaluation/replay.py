"""Layers that answer from memory, without a line of modelling code.

While a prefix is resumed, each layer's `forward` is shadowed on the instance. In a prefill, a layer before the first
drop hands on the hidden state that it gave in the unpruned run and puts the keys and values that it wrote then into
the cache. The layer just before the drop, whose attention a scorer reads, calls its attention and its projections as
ever, and these answer from memory too, so that the engine's hooks see what they always see. All other layers, and
every decoding step, run as they are; so the results are the same to the bit.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from vispco.engine.cache import cache_layer

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import ExitStack

    from torch import Tensor, nn

    from vispco.evaluation.prefix import LayerRecord
    from vispco.scorers import Scorer


class Replay:
    """The stand-ins of one resumed run."""

    def __init__(self, scorer: Scorer, first: Callable[[], int]) -> None:
        self.scorer, self.ask = scorer, first
        self.looks_back = scorer.needs_attention or scorer.site == "mid"
        self.first = 0  # the layer of the first drop
        self.shown = -1  # the layer whose attention answers from memory just now

    def stand_in(self, stack: ExitStack, index: int, record: LayerRecord, layer: Any, attention: Any) -> None:
        """Shadow a layer until the stack is closed."""
        _shadow(stack, layer, self._layer(index, record, layer.forward, attention))
        if self._can_show(record):
            _shadow(stack, attention, self._attention(index, record, attention.forward, attention))
            for name in record.projected:
                projection = getattr(attention, name)
                _shadow(stack, projection, self._projection(index, record.projected[name], projection.forward))

    def _can_show(self, record: LayerRecord) -> bool:
        """Was all recorded that is looked at before a drop?"""
        seen = bool(record.projected) or not self.scorer.needs_attention
        return self.looks_back and seen and (record.attended is not None or self.scorer.site == "entry")

    def _layer(
        self, index: int, record: LayerRecord, own: Callable[..., Any], attention: nn.Module
    ) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            cache = kwargs.get("past_key_values")
            if cache is not None and cache.get_seq_length(index):
                return own(*args, **kwargs)  # a decoding step
            if index == 0:
                self.first = self.ask()
            looked_at = self.looks_back and index == self.first - 1
            if index >= self.first or (looked_at and not self._can_show(record)):
                return own(*args, **kwargs)
            if not looked_at:
                _write(cache, index, record)
                return record.output
            self.shown = index
            try:
                if self.scorer.site == "mid":
                    return own(*args, **kwargs)  # its feed-forward network has fewer tokens already
                hidden = args[0] if args else kwargs.pop("hidden_states")
                attention(hidden_states=hidden, **kwargs)
                return record.output
            finally:
                self.shown = -1

        return forward

    def _attention(self, index: int, record: LayerRecord, own: Callable[..., Any], module: Any) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            if self.shown != index:
                return own(*args, **kwargs)
            for name in record.projected:
                getattr(module, name)(args[0] if args else kwargs["hidden_states"])
            _write(kwargs.get("past_key_values"), index, record)
            return record.attended

        return forward

    def _projection(self, index: int, projected: Tensor, own: Callable[..., Any]) -> Callable[..., Any]:
        def forward(*args: Any, **kwargs: Any) -> Any:
            return projected if self.shown == index else own(*args, **kwargs)

        return forward


def _write(cache: Any, index: int, record: LayerRecord) -> None:
    if cache is not None:
        cache_layer(cache, index)
        cache.layers[index] = copy.copy(record.cache)  # an update makes new tensors, so these can be shared


def _shadow(stack: ExitStack, module: nn.Module, forward: Callable[..., Any]) -> None:
    """Put `forward` on an instance; what it had of its own (accelerate gives it one) comes back afterwards."""
    before = module.__dict__.get("forward")

    def restore() -> None:
        del module.__dict__["forward"]
        if before is not None:
            module.__dict__["forward"] = before

    module.__dict__["forward"] = forward
    stack.callback(restore)
