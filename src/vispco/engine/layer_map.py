"""`LayerMap`: static facts of the decoder layers (attention modules, argument names, shared keys)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from torch import nn

from vispco.families import Family
from vispco.families.family import MIXING_KINDS


@dataclass(frozen=True, eq=False)
class LayerMap:
    """The decoder layers of a model.

    attentions: the attention module of each layer, None where it has none (linear attention, convolution, experts alone).
    mixing: whether a layer lets neighbouring tokens touch outside of attention, which no mask over keys can undo.
    names: the names of each layer's positional arguments.
    key_sources: {layer: an earlier one}, for layers that make no keys of their own.
    """

    attentions: tuple[nn.Module | None, ...]
    mixing: tuple[bool, ...]
    names: tuple[tuple[str, ...], ...]
    key_sources: Mapping[int, int]

    @classmethod
    def of(cls, family: Family, model: nn.Module) -> LayerMap:
        layers = list(family.layers(model))
        kinds = family.layer_kinds(model)
        return cls(
            tuple(family.attention_of(layer, kind) for layer, kind in zip(layers, kinds, strict=True)),
            tuple(kind in MIXING_KINDS for kind in kinds),
            tuple(tuple(inspect.signature(layer.forward).parameters) for layer in layers),
            family.key_sources(model),
        )

    def __len__(self) -> int:
        return len(self.attentions)

    @property
    def modules(self) -> dict[int, nn.Module]:
        """The attention modules there are, by layer."""
        return {layer: module for layer, module in enumerate(self.attentions) if module is not None}

    @cached_property
    def readable_before(self) -> tuple[int | None, ...]:
        """For each layer boundary 0..L, the last layer before it that has attention; None if there is none yet."""
        found: list[int | None] = [None]
        for layer, module in enumerate(self.attentions):
            found.append(found[-1] if module is None else layer)
        return tuple(found)

    @cached_property
    def last_mixing(self) -> int:
        """The last layer that lets tokens touch outside of attention; -1 if none does."""
        return max((layer for layer, mixes in enumerate(self.mixing) if mixes), default=-1)

    def bind(self, layer: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        """All arguments of a layer by name."""
        return {**dict(zip(self.names[layer], args, strict=False)), **kwargs}

    def unbind(self, layer: int, number: int, arguments: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The first `number` arguments by position, the others by name."""
        first = self.names[layer][:number]
        return tuple(arguments[name] for name in first), {k: v for k, v in arguments.items() if k not in first}
