"""Downsampling: the picture is made smaller, and every token of the smaller picture is kept.

The baseline that needs no method at all, which several studies find hard to beat. Faithful: bicubic, the aspect ratio is
kept, the model is unchanged.

What it may cost: a pruned prompt at budget B costs the vision tower on the whole picture and B of the language model. A
smaller picture saves in the tower, too, so it may spend that on tokens: tower and language model together must cost no
more than those of a pruned prompt. Both are accounted. The fraction in a comparison is what is charged against the
budget, (tower + language model - tower on the whole picture) / unpruned language model; `details["downsample"]` of its
evaluation has the language model's share and the tower's. With `tower=False` the tower is left out on both sides.

A model whose processor makes every picture the same number of tokens cannot be served, and says so.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import Any, ClassVar
from weakref import WeakKeyDictionary

import torch
from PIL import Image
from torch import nn

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import BudgetFloorError, NotApplicableError
from vispco.cost import Cost, Workload
from vispco.cost.formulas import counted_flops
from vispco.engine.vision import encode_pictures
from vispco.evaluation.encoded import Prompt, read
from vispco.evaluation.result import Evaluation
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner.picture_setting import without_least_size
from vispco.scorers.base import VisionNeeds

_ROUNDING = 1e-9
_LOOKED_AT = 32  # calibration samples that tell whether a budget lies above the floor
_BISECTION_STEPS = 6  # of the range of sides: to 1/64
_LEAST = 1 / 16  # of a side
_TOWER_FLOPS: WeakKeyDictionary[nn.Module, dict[tuple[Any, ...], float]] = WeakKeyDictionary()
"""Of each model, what its tower costs for pictures of a size."""


@SEARCHES.register
@dataclass(frozen=True)
class _Downsample(Rival):
    """Smaller pictures. tower: whether what the vision tower saves may be spent on tokens."""

    name: ClassVar[str] = "downsample"

    tower: bool = True

    def check_budget(self, calibration: Calibration, budget: float) -> None:
        """Its floor, which `_search` looks at, may lie under that of the text: a smaller picture saves in the tower."""
        if not 0.0 < budget <= 1.0:
            calibration.sizes.check_budget(budget)  # refuses it

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        """Nothing is searched; a model that it cannot serve is refused here."""
        evaluator = self.require_model(calibration, "changes the pictures of a model")
        shrinker = _Shrinker(evaluator, calibration.sizes.cost, tower=self.tower)
        shrinker.check()
        least = fmean(shrinker.smallest(sample).charged for sample in evaluator.samples[:_LOOKED_AT])
        if least > budget + _ROUNDING:
            raise BudgetFloorError(
                f"The budget {budget:g} is below the floor of 'downsample': with the smallest pictures this model still "
                f"costs {least:.4g} of the unpruned one, because of its text. Give a budget above it."
            )
        provenance = {"samples": min(_LOOKED_AT, len(evaluator.samples))}
        return Choice(provenance=provenance, evaluate=partial(self._evaluate, budget))

    def _evaluate(self, budget: float, test: Any, sizes: SampleSizes) -> Evaluation:
        """Shrink the pictures of a `TaskEvaluator` to the largest within the budget, and ask the unpruned model."""
        shrinker = _Shrinker(test, sizes.cost, tower=self.tower)
        shrunk = [shrinker.shrink(sample, budget) for sample in test.samples]
        evaluator = type(test)(
            test.model,
            shrinker.processor,
            [each.sample for each in shrunk],
            batch_size=max(len(batch.rows) for batch in test.batches),
            max_new_tokens=test.max_new_tokens,
            costs=tuple(test.costs),
            score=test.options.score,
            progress=test.progress,
        )
        found: Evaluation = evaluator(None)
        name = sizes.cost.name
        charged = fmean(each.charged for each in shrunk)
        account = {
            "language": fmean(each.language for each in shrunk),
            "tower": fmean(each.tower for each in shrunk),
            "over_budget": sum(each.charged > budget + _ROUNDING for each in shrunk),  # by their text alone
        }
        return replace(
            found,
            fraction={**dict.fromkeys(found.fraction, account["language"]), name: charged},
            details={**found.details, "downsample": account},
        )


@dataclass(frozen=True)
class _Shrunk:
    """A sample with smaller pictures. Shares of the whole picture's: `language` of the language model, `tower` of the
    tower.

    charged: what counts against a budget of the language model.
    """

    sample: Any
    language: float
    tower: float
    charged: float


class _Shrinker:
    """Finds the largest pictures of a sample that a budget allows, by asking the processor how many tokens they become."""

    def __init__(self, evaluator: Any, cost: Cost, *, tower: bool = True) -> None:
        self.model, self.cost, self.with_tower = evaluator.model, cost, tower
        self.processor = copy.copy(evaluator.processor)
        self.processor.image_processor = without_least_size(evaluator.processor.image_processor)
        self.samples = evaluator.samples
        self._tower_flops = _TOWER_FLOPS.setdefault(self.model, {})

    def check(self) -> None:
        """Refuse a model whose pictures have as many tokens at any size."""
        sample = max(self.samples, key=lambda each: each.area)
        if not sample.num_images:
            raise NotApplicableError("'downsample' makes pictures smaller, and the samples have none.")
        whole, half = (read(self.model, self.processor, _resized(sample, side)).num_visual for side in (1.0, 0.5))
        if half >= whole:
            raise NotApplicableError(
                f"'downsample' cannot save anything on {type(self.model).__name__}: its processor makes every picture "
                f"{whole} tokens, whatever its size."
            )

    def smallest(self, sample: Any) -> _Shrunk:
        """The sample with the smallest pictures."""
        return self._priced(sample, _LEAST, self._prices(sample, 1.0))

    def shrink(self, sample: Any, budget: float) -> _Shrunk:
        """The largest picture whose cost meets the budget; the smallest one where none does."""
        if budget >= 1.0 or not sample.num_images:
            return _Shrunk(sample, 1.0, 1.0, 1.0)
        whole = self._prices(sample, 1.0)
        low, high = _LEAST, 1.0
        found = self._priced(sample, low, whole)
        for _ in range(_BISECTION_STEPS):
            middle = (low + high) / 2
            tried = self._priced(sample, middle, whole)
            if tried.charged <= budget:
                low, found = middle, tried
            else:
                high = middle
        return found

    def _priced(self, sample: Any, side: float, whole: tuple[float, float]) -> _Shrunk:
        language, tower = self._prices(sample, side)
        all_language, all_tower = whole
        saved = all_tower - tower if self.with_tower else 0.0
        return _Shrunk(
            _resized(sample, side),
            language / all_language,
            tower / all_tower if all_tower else 1.0,
            (language - saved) / all_language,
        )

    def _prices(self, sample: Any, side: float) -> tuple[float, float]:
        """FLOPs of the language model, and of the vision tower with its projector."""
        prompt = read(self.model, self.processor, _resized(sample, side))
        text = prompt.tensors["input_ids"].numel() - prompt.num_visual
        return float(self.cost.full(Workload(text, prompt.num_visual))), self._tower(prompt)

    @torch.no_grad()
    def _tower(self, prompt: Prompt) -> float:
        """Counted in a real pass, once for all pictures of the same shapes and the same numbers in grids."""
        words, key = prompt.tensors["input_ids"].shape, []
        for name, value in sorted(prompt.tensors.items()):
            if value.shape != words:
                numbers = () if value.is_floating_point() else tuple(value.flatten().tolist())
                key.append((name, *value.shape, *numbers))
        known = tuple(key)
        if known not in self._tower_flops:
            inputs = {name: value.to(self.model.device) for name, value in prompt.tensors.items()}
            with counted_flops() as counter:
                encode_pictures(self.model, inputs, VisionNeeds())
            self._tower_flops[known] = float(counter.get_total_flops())
        return self._tower_flops[known]


def _resized(sample: Any, side: float) -> Any:
    """The sample with the sides of its pictures multiplied by `side`."""
    if side >= 1.0:
        return sample
    images: Sequence[Image.Image] = sample.images
    small = [
        image.resize((max(1, round(image.width * side)), max(1, round(image.height * side))), Image.Resampling.BICUBIC)
        for image in images
    ]
    return sample.with_images(small)
