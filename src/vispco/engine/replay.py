"""Prefix caching for search: outputs of an unpruned run's first layers, reused by schedules that leave them unchanged.

While a prefix is resumed, each layer's `forward` is shadowed on the instance. In a prefill, a layer before the first choice
hands on the hidden state that it gave in the unpruned run and puts the keys and values that it wrote then into the cache.
Where a scorer reads the attention of the layer just before, it is handed the recorded call. All other layers, and every
decoding step, run as they are; so the results are the same to the bit.
"""

import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from vispco.core.errors import PrunerStateError
from vispco.engine.attention import AttentionCall
from vispco.engine.cache import cache_layer
from vispco.engine.forward import attention_calls
from vispco.engine.hooks import engine_on
from vispco.engine.passes import PruningPass
from vispco.engine.wrappers import shadow
from vispco.families import family_of
from vispco.scorers.chain import Chain, ChainLike


@dataclass
class _LayerRecord:
    """One layer of the unpruned run: what it gave, what it had in the cache, its attention call and what that gave."""

    output: Any = None
    cache: Any = None
    call: AttentionCall | None = None
    attended: Any = None

    @property
    def size(self) -> int:
        """Bytes held."""
        attended = self.attended[0] if isinstance(self.attended, tuple) else self.attended
        parts = [self.output[0] if isinstance(self.output, tuple) else self.output, attended]
        parts += [] if self.cache is None else [self.cache.keys, self.cache.values]
        if self.call is not None:
            parts += [self.call.query, *([] if self.cache is not None else [self.call.key])]  # a cache shares its keys
        return sum(part.numel() * part.element_size() for part in parts if isinstance(part, Tensor))


class Prefix:
    """The unpruned prefill of one batch, layer by layer: record it once, resume it for every schedule.

    chain: whose schedules will resume; those of another may too, and then may have to compute one layer more.
    """

    def __init__(self, model: Any, chain: ChainLike) -> None:
        self.family = family_of(model)
        self.model, self.chain = model, Chain.of(chain)
        self.base = self.family.base(model)
        self.layers = list(self.family.layers(model))
        self.records = [_LayerRecord() for _ in self.layers]

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(record.size for record in self.records)

    @contextmanager
    def record(self, until: int | None = None) -> Iterator[None]:
        """Keep what the layers compute in the first forward pass inside the block, which must not be pruned.

        until: only of the layers before this one, where no schedule begins later.
        """
        if engine_on(self.base) is not None:
            raise PrunerStateError(
                "A pruner is on the model. Remove it first: a prefix is a record of the unpruned run."
            )
        self.records = [_LayerRecord() for _ in self.layers]
        with ExitStack() as stack:
            for index, layer in enumerate(self.layers[:until]):
                stack.callback(layer.register_forward_hook(partial(self._keep_output, index), with_kwargs=True).remove)
                if any(scorer.site == "mid" for scorer in self.chain.scorers):
                    attention = self.family.attention(layer)
                    stack.callback(attention.register_forward_hook(partial(self._keep_attended, index)).remove)
            if self.chain.needs_attention:
                stack.enter_context(attention_calls(self.model, self._keep_call))
            yield
        self.records = self.records[:until]

    @contextmanager
    def resume(self) -> Iterator[None]:
        """Inside the block, a prefill of the recorded batch computes next to nothing before its first choice."""
        if not self.records or any(record.output is None for record in self.records):
            raise PrunerStateError("This prefix holds nothing to resume. Record an unpruned run of the batch first.")
        with ExitStack() as stack:
            for index, layer in enumerate(self.layers[: len(self.records)]):
                attention = self.family.attention(layer) if self.records[index].attended is not None else None
                answering = _StandIn(self, index, layer, attention)
                shadow(stack, layer, "forward", answering.run)
                if attention is not None:
                    shadow(stack, attention, "forward", answering.attend)
            yield

    def _keep_output(self, index: int, _: nn.Module, __: Any, kwargs: dict[str, Any], output: Any) -> None:
        record = self.records[index]
        if record.output is None:  # else this is a decoding step
            record.output = output
            if (cache := kwargs.get("past_key_values")) is not None:
                record.cache = copy.copy(cache_layer(cache, index))

    def _keep_attended(self, index: int, _: nn.Module, __: Any, output: Any) -> None:
        if self.records[index].attended is None:
            self.records[index].attended = output

    def _keep_call(self, index: int, call: AttentionCall) -> None:
        if self.records[index].call is None:
            self.records[index].call = replace(call, value=None)


class _StandIn:
    """The `forward` of a layer, and of its attention, that answers from a record."""

    def __init__(self, prefix: Prefix, index: int, layer: nn.Module, attention: nn.Module | None) -> None:
        self.base, self.index, self.record = prefix.base, index, prefix.records[index]
        self.own_layer, self.own_attention = layer.forward, None if attention is None else attention.forward
        self.showing: PruningPass | None = None  # the pass to which the attention answers from memory just now

    def run(self, *args: Any, **kwargs: Any) -> Any:
        cache, index, record = kwargs.get("past_key_values"), self.index, self.record
        if cache is not None and cache.get_seq_length(index):
            return self.own_layer(*args, **kwargs)  # a decoding step
        engine = engine_on(self.base)
        current = None if engine is None else engine.state.current
        first = current.choices.first if isinstance(current, PruningPass) else None
        if not isinstance(current, PruningPass) or first is None or index < first - 1:
            self._write(cache)
            return record.output
        if index >= first:
            return self.own_layer(*args, **kwargs)
        reads, mid = current.choices.read[index], current.leaves_mid(index)
        if (reads and record.call is None) or (mid and record.attended is None):
            return self.own_layer(*args, **kwargs)
        if mid:  # its feed-forward network has fewer tokens already
            self.showing = current
            try:
                return self.own_layer(*args, **kwargs)
            finally:
                self.showing = None
        if reads and record.call is not None:
            current.listen(record.call)
        self._write(cache)
        return record.output

    def attend(self, *args: Any, **kwargs: Any) -> Any:
        if self.showing is None:
            assert self.own_attention is not None  # noqa: S101 - installed with its module
            return self.own_attention(*args, **kwargs)
        if self.record.call is not None:
            self.showing.listen(self.record.call)
        self._write(kwargs.get("past_key_values"))
        return self.record.attended

    def _write(self, cache: Any) -> None:
        if cache is not None:
            cache_layer(cache, self.index)
            cache.layers[self.index] = copy.copy(self.record.cache)  # an update makes new tensors: these can be shared
