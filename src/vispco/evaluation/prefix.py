"""What the first layers of an unpruned run computed, so that every schedule that leaves them alone starts after them."""

from __future__ import annotations

import copy
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vispco.engine.cache import cache_layer
from vispco.errors import PrunerStateError
from vispco.evaluation.replay import Replay
from vispco.families import family_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vispco.scorers import Scorer

PROJECTIONS = ("q_proj", "k_proj")  # what the engine reads of a layer to score tokens


def first_drop(counts: Tensor, num_visual: Sequence[int]) -> int:
    """The first layer that some sample enters with fewer tokens than it has: counts [B, L] -> 0..L (L: none)."""
    pruned = (counts < torch.tensor(num_visual)[:, None]).any(0).nonzero()
    return int(pruned[0]) if len(pruned) else int(counts.shape[1])


@dataclass
class LayerRecord:
    """One layer of the unpruned run: what it gave, what it had in the cache, and what its attention computed."""

    output: Any = None
    cache: Any = None
    attended: Any = None
    projected: dict[str, Tensor] = field(default_factory=dict)

    def keep_output(self, index: int) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, kwargs: dict[str, Any], output: Any) -> None:
            if self.output is None:  # else this is a decoding step
                self.output = output
                if (cache := kwargs.get("past_key_values")) is not None:
                    self.cache = copy.copy(cache_layer(cache, index))

        return hook

    def keep_attended(self, _: nn.Module, __: Any, output: Any) -> None:
        if self.attended is None:
            self.attended = output

    def keep_projected(self, name: str) -> Callable[..., None]:
        def hook(_: nn.Module, __: Any, output: Tensor) -> None:
            self.projected.setdefault(name, output)

        return hook

    @property
    def size(self) -> int:
        """Bytes held."""
        parts = [self.output, self.attended, *self.projected.values()]
        parts += [] if self.cache is None else [self.cache.keys, self.cache.values]
        tensors = [part[0] if isinstance(part, tuple) else part for part in parts]
        return sum(t.numel() * t.element_size() for t in tensors if isinstance(t, Tensor))


class Prefix:
    """The unpruned prefill of one batch, layer by layer: record it once, resume it for every schedule.

    scorer: whose schedules will resume; those of another may too, and then may have to compute one layer more.
    """

    def __init__(self, model: Any, scorer: Scorer) -> None:
        family = family_of(model)
        self.scorer = scorer
        self.layers = list(family.layers(model))
        self.attentions = [family.attention(layer) for layer in self.layers]
        self.records = [LayerRecord() for _ in self.layers]

    @property
    def size(self) -> int:
        """Bytes held."""
        return sum(record.size for record in self.records)

    @contextmanager
    def record(self) -> Iterator[None]:
        """Keep what the layers compute in the first forward pass inside the block, which must not be pruned."""
        self.records = [LayerRecord() for _ in self.layers]
        with ExitStack() as stack:
            for index, (layer, attention) in enumerate(zip(self.layers, self.attentions, strict=True)):
                record = self.records[index]
                handles = [layer.register_forward_hook(record.keep_output(index), with_kwargs=True)]
                if self.scorer.needs_attention:
                    for name in PROJECTIONS:
                        projection: nn.Module = getattr(attention, name)
                        handles.append(projection.register_forward_hook(record.keep_projected(name)))
                if self.scorer.site == "mid":
                    handles.append(attention.register_forward_hook(record.keep_attended))
                for handle in handles:
                    stack.callback(handle.remove)
            yield

    @contextmanager
    def resume(self, scorer: Scorer, first: Callable[[], int]) -> Iterator[None]:
        """Inside the block, a prefill of the recorded batch computes next to nothing before its first drop.

        `first()` is that layer (see `first_drop`); it is asked when layer 0 begins.
        """
        if any(record.output is None for record in self.records):
            raise PrunerStateError("This prefix holds nothing to resume. Record an unpruned run of the batch first.")
        replay = Replay(scorer, first)
        with ExitStack() as stack:
            for index, record in enumerate(self.records):
                replay.stand_in(stack, index, record, self.layers[index], self.attentions[index])
            yield
