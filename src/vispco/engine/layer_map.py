"""`LayerMap`: static facts of the decoder layers (attention modules, argument names, shared keys)."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from torch import nn

from vispco.core.errors import UnsupportedModelError
from vispco.families import Family
from vispco.families.family import MIXING_KINDS, WITHOUT_ATTENTION


@dataclass(frozen=True, eq=False)
class LayerMap:
    """The decoder layers of a model.

    attentions: the attention modules by layer, without layers that have none (linear attention, convolution, experts alone).
    names: the names of each layer's positional arguments.
    readable_before: for each layer boundary 0..L, the last layer before it that has attention; None if there is none yet.
    last_mixing: the last layer that lets neighbouring tokens touch outside of attention, which no mask over keys can undo; -1 if
        none does.
    key_sources: {layer: an earlier one}, for layers that make no keys of their own.
    """

    attentions: Mapping[int, nn.Module]
    names: tuple[tuple[str, ...], ...]
    readable_before: tuple[int | None, ...]
    last_mixing: int
    key_sources: Mapping[int, int]

    @classmethod
    def of(cls, family: Family, model: nn.Module) -> LayerMap:
        layers, kinds = list(family.layers(model)), family.layer_kinds(model)
        attentions: dict[int, nn.Module] = {}
        readable: list[int | None] = [None]
        for index, (layer, kind) in enumerate(zip(layers, kinds, strict=True)):
            if kind not in WITHOUT_ATTENTION:
                attentions[index] = family.attention(layer)
            readable.append(index if index in attentions else readable[-1])
        return cls(
            attentions,
            tuple(tuple(inspect.signature(layer.forward).parameters) for layer in layers),
            tuple(readable),
            max((layer for layer, kind in enumerate(kinds) if kind in MIXING_KINDS), default=-1),
            family.key_sources(model),
        )

    def check_readable(self) -> None:
        """Say before anything runs that attention cannot be read."""
        for module in self.attentions.values():
            home = sys.modules[type(module).__module__]  # a file that looks its attention function up has the table
            if not hasattr(module, "config") or not hasattr(home, "ALL_ATTENTION_FUNCTIONS"):
                raise UnsupportedModelError(
                    f"{type(module).__name__} does not run attention through transformers' attention functions, so its "
                    "attention cannot be read. Use a scorer without attention (e.g. 'random'), or add a model family."
                )
