"""`Setting`: tokens that a published method keeps, by stage, at the layers of the model that its paper used."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from vispco.core.errors import InvalidInputError
from vispco.scorers import Chain

Label: TypeAlias = Literal["kept", "inputs", "outputs"]
"""What the number in a setting's name counts: tokens kept by the last stage, or the mean over layer inputs or outputs."""

NUM_LAYERS, NUM_VISUAL = 32, 576  # LLaVA-1.5-7B, which most papers report


@dataclass(frozen=True)
class PresetStage:
    """From this layer on, this share of the original visual tokens stays, and at least this number."""

    layer: int
    keep: float
    least: int = 0

    def count(self, num_visual: int) -> int:
        """Whole tokens of a number of visual tokens; halves are rounded up, as everywhere."""
        return min(num_visual, max(self.least, math.floor(self.keep * num_visual + 0.5 + 1e-6)))


@dataclass(frozen=True)
class Setting:
    """One published setting.

    stages: by growing depth, shares never growing. num_layers, num_visual: of the model that they were published for; other
    models take them at the same relative depth. label: what a number in the setting's name counts; None if it has none.
    earliest: the first layer inside the language model at which the method can choose.
    """

    stages: tuple[PresetStage, ...]
    num_layers: int = NUM_LAYERS
    num_visual: int = NUM_VISUAL
    label: Label | None = None
    earliest: int = 1

    def __post_init__(self) -> None:
        layers, shares = [s.layer for s in self.stages], [s.keep for s in self.stages]
        if not self.stages or layers != sorted(set(layers)) or shares != sorted(shares, reverse=True):
            raise InvalidInputError(
                f"The stages {self.stages} were given. Give at least one; layers grow, shares never do."
            )
        if not 0 <= layers[0] <= layers[-1] < self.num_layers or not 0 <= shares[-1] <= shares[0] <= 1:
            raise InvalidInputError(
                f"The stages {self.stages} do not fit a model of {self.num_layers} layers. Layers are 0 to "
                f"{self.num_layers - 1}, shares lie in [0, 1]."
            )

    @classmethod
    def tokens(cls, stages: Mapping[int, int], *, label: Label | None = "kept") -> Setting:
        """Layer -> whole tokens of LLaVA-1.5-7B's 576."""
        return cls(tuple(PresetStage(layer, count / NUM_VISUAL) for layer, count in stages.items()), label=label)

    @classmethod
    def shares(cls, stages: Mapping[int, float], **other: Any) -> Setting:
        """Layer -> share of the original visual tokens."""
        return cls(tuple(PresetStage(layer, share) for layer, share in stages.items()), **other)

    def for_depth(self, num_layers: int, *, front: float = 1.0) -> tuple[PresetStage, ...]:
        """The stages at the same relative depth of another model; of those that meet at one layer, the deepest holds.

        front: below 1 moves all of them toward the input by that factor. A stage inside the language model stays inside.
        """
        found: dict[int, PresetStage] = {}
        for stage in self.stages:
            layer = self.layer_for_depth(stage.layer, num_layers, front=front)
            found[layer] = PresetStage(layer, stage.keep, stage.least)
        return tuple(found.values())

    def layer_for_depth(self, layer: int, num_layers: int, *, front: float = 1.0) -> int:
        """The layer of another model at the same relative depth."""
        if layer == 0:
            return 0
        scaled = math.floor(front * layer * num_layers / self.num_layers + 0.5)
        return min(max(scaled, self.earliest), num_layers - 1)


@dataclass(frozen=True)
class ChainSetting(Setting):
    """A chain that no paper sets: half of the tokens leave at the first layer of each scorer (see `first_layers`)."""

    chain: Chain | None = None

    @classmethod
    def of(cls, chain: Chain) -> ChainSetting:
        layers = [layer for layer, _ in chain.stages]
        stages = tuple(PresetStage(layer, 0.5**step) for step, layer in enumerate(layers, 1))
        return cls(stages, max(NUM_LAYERS, layers[-1] + 1), earliest=chain.earliest_layer, chain=chain)

    def for_depth(self, num_layers: int, *, front: float = 1.0) -> tuple[PresetStage, ...]:
        """A stage at the layer where its scorer drops; `front` moves it toward the input, as far as the scorer can choose."""
        from vispco.pruner.planner_kinds import first_layers  # noqa: PLC0415 - it builds presets, too

        assert self.chain is not None  # noqa: S101 - `of` sets it
        found: list[PresetStage] = []
        for layer, own in zip(first_layers(self.chain, num_layers), self.stages, strict=True):
            lowest = max(own.layer, found[-1].layer + 1 if found else 0)
            found.append(PresetStage(max(math.floor(front * layer + 0.5), lowest), own.keep))
        return tuple(found)
