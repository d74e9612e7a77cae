"""`Shrinker`: the largest pictures of a sample that a budget allows, with the cost of language model and vision tower."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import torch
from PIL import Image
from torch import Tensor, nn

from vispco.core.errors import NotApplicableError
from vispco.cost import Cost, Workload
from vispco.cost.counted_flops import counted_flops
from vispco.engine.vision import encode_pictures
from vispco.evaluation.encoded import Prompt, read
from vispco.scorers.base import VisionNeeds

BISECTION_STEPS = 6  # of the range of sides: to 1/64
LEAST = 1 / 16  # of a side
_TOWER_FLOPS: WeakKeyDictionary[nn.Module, dict[tuple[Any, ...], float]] = WeakKeyDictionary()
"""Of each model, what its tower costs for pictures of a size."""


@dataclass(frozen=True)
class Shrunk:
    """A sample with smaller pictures. Shares of the whole picture's: `language` of the language model, `tower` of the tower.

    charged: what counts against a budget of the language model.
    """

    sample: Any
    language: float
    tower: float
    charged: float


class Shrinker:
    """Finds the largest pictures of a sample that a budget allows, by asking the processor how many tokens they become."""

    def __init__(self, evaluator: Any, cost: Cost, *, tower: bool = True) -> None:
        self.model, self.cost, self.with_tower = evaluator.model, cost, tower
        self.processor = without_least_size(evaluator.processor)
        self.samples = evaluator.samples
        self._tower_flops = _TOWER_FLOPS.setdefault(self.model, {})

    def check(self) -> None:
        """Refuse a model whose pictures have as many tokens at any size."""
        sample = max(self.samples, key=lambda each: each.area)
        if not sample.num_images:
            raise NotApplicableError("'downsample' makes pictures smaller, and the samples have none.")
        whole, half = (self._read(sample, side).num_visual for side in (1.0, 0.5))
        if half >= whole:
            raise NotApplicableError(
                f"'downsample' cannot save anything on {type(self.model).__name__}: its processor makes every picture "
                f"{whole} tokens, whatever its size."
            )

    def smallest(self, sample: Any) -> Shrunk:
        """The sample with the smallest pictures."""
        return self._priced(sample, LEAST, self._prices(self._read(sample, 1.0)))

    def shrink(self, sample: Any, budget: float) -> Shrunk:
        """The largest picture whose cost meets the budget; the smallest one where none does."""
        if budget >= 1.0 or not sample.num_images:
            return Shrunk(sample, 1.0, 1.0, 1.0)
        whole = self._prices(self._read(sample, 1.0))
        low, high = LEAST, 1.0
        found = self._priced(sample, low, whole)
        for _ in range(BISECTION_STEPS):
            middle = (low + high) / 2
            tried = self._priced(sample, middle, whole)
            if tried.charged <= budget:
                low, found = middle, tried
            else:
                high = middle
        return found

    def _priced(self, sample: Any, side: float, whole: tuple[float, float]) -> Shrunk:
        language, tower = self._prices(self._read(sample, side))
        all_language, all_tower = whole
        saved = all_tower - tower if self.with_tower else 0.0
        return Shrunk(
            resized(sample, side),
            language / all_language,
            tower / all_tower if all_tower else 1.0,
            (language - saved) / all_language,
        )

    def _read(self, sample: Any, side: float) -> Prompt:
        return read(self.model, self.processor, resized(sample, side))

    def _prices(self, prompt: Prompt) -> tuple[float, float]:
        """FLOPs of the language model, and of the vision tower with its projector."""
        text = prompt.tensors["input_ids"].numel() - prompt.num_visual
        return float(self.cost.full(Workload(text, prompt.num_visual))), self._tower(prompt)

    @torch.no_grad()
    def _tower(self, prompt: Prompt) -> float:
        """Counted in a real pass, once for each size of pictures."""
        pictures = {
            name: value for name, value in prompt.tensors.items() if value.shape != prompt.tensors["input_ids"].shape
        }
        key = tuple((name, _identity(value)) for name, value in sorted(pictures.items()))
        if key not in self._tower_flops:
            inputs = {name: value.to(self.model.device) for name, value in prompt.tensors.items()}
            with counted_flops() as counter:
                encode_pictures(self.model, inputs, VisionNeeds())
            self._tower_flops[key] = float(counter.get_total_flops())
        return self._tower_flops[key]


def resized(sample: Any, side: float) -> Any:
    """The sample with the sides of its pictures multiplied by `side`."""
    if side >= 1.0:
        return sample
    images: Sequence[Image.Image] = sample.images
    small = [
        image.resize((max(1, round(image.width * side)), max(1, round(image.height * side))), Image.Resampling.BICUBIC)
        for image in images
    ]
    return sample.with_images(small)


def without_least_size(processor: Any) -> Any:
    """A processor that does not enlarge small pictures: the least area, where it has one, becomes that of one token."""
    found = copy.copy(processor)
    images = copy.deepcopy(processor.image_processor)
    size: Any = getattr(images, "size", None)
    known = dict(size) if size else {}
    if known.get("longest_edge") and known.get("shortest_edge"):
        side = int(getattr(images, "patch_size", 14)) * int(getattr(images, "merge_size", 1) or 1)
        images.size = type(size)(**{**known, "shortest_edge": side * side})
    found.image_processor = images
    return found


def _identity(value: Tensor) -> tuple[Any, ...]:
    """What the cost of a picture depends on: shapes, and the numbers of small integer tensors such as grids."""
    small = () if value.is_floating_point() else tuple(value.flatten().tolist())
    return (*value.shape, *small)
