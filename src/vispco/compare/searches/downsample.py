"""Downsampling: the picture is made smaller, and every token of the smaller picture is kept.

The baseline that needs no method at all, which several studies find hard to beat. Faithful: bicubic, the aspect ratio is
kept, the model is unchanged.

What it may cost: a pruned prompt at budget B costs the vision tower on the whole picture and B of the language model. A
smaller picture saves in the tower, too, so it may spend that on tokens: tower and language model together must cost no more
than those of a pruned prompt. Both are accounted. The fraction in a comparison is what is charged against the budget, (tower
+ language model - tower on the whole picture) / unpruned language model; `details["downsample"]` of its evaluation has the
language model's share and the tower's. With `tower=False` the tower is left out on both sides.

A model whose processor makes every picture the same number of tokens cannot be served, and says so.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from statistics import fmean
from typing import Any, ClassVar

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.candidate import InputResult
from vispco.compare.searches.registry import SEARCHES
from vispco.compare.searches.shrinker import Shrinker
from vispco.core.errors import BudgetFloorError, InvalidInputError
from vispco.evaluation.result import Evaluation, Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.search.bill import FlopsBill

ROUNDING = 1e-9
LOOKED_AT = 32  # calibration samples that tell whether a budget lies above the floor


@SEARCHES.register
@dataclass(frozen=True)
class Downsample:
    """Smaller pictures. tower: whether what the vision tower saves may be spent on tokens."""

    name: ClassVar[str] = "downsample"

    tower: bool = True

    @property
    def label(self) -> str:
        return self.name

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def search(self, calibration: Calibration | Evaluator, budget: float) -> DownsampleResult:
        """Nothing is searched; a model that it cannot serve is refused here."""
        start = time.perf_counter()
        given = Calibration.of(calibration)
        if not 0.0 < budget <= 1.0:
            given.sizes.check_budget(budget)  # refuses it
        if not hasattr(given.evaluator, "model"):
            raise InvalidInputError(
                f"{self.name!r} changes the pictures of a model, and {type(given.evaluator).__name__} has none. Give a "
                "TaskEvaluator."
            )
        shrinker = Shrinker(given.evaluator, given.sizes.cost, tower=self.tower)
        shrinker.check()
        least = fmean(shrinker.smallest(sample).charged for sample in given.evaluator.samples[:LOOKED_AT])
        if least > budget + ROUNDING:
            raise BudgetFloorError(
                f"The budget {budget:g} is below the floor of 'downsample': with the smallest pictures this model still "
                f"costs {least:.4g} of the unpruned one, because of its text. Give a budget above it."
            )
        provenance = {"settings": self.settings(), "samples": min(LOOKED_AT, len(given.evaluator.samples))}
        return DownsampleResult(self, budget, FlopsBill(), time.perf_counter() - start, provenance=provenance)


@dataclass(frozen=True)
class DownsampleResult(InputResult):
    """The largest pictures within a budget: the inputs change, and all of their tokens are kept."""

    rival: Downsample

    def evaluate(self, test: Any, sizes: SampleSizes) -> Evaluation:
        """Shrink the pictures of a `TaskEvaluator` and ask the unpruned model."""
        shrinker = Shrinker(test, sizes.cost, tower=self.rival.tower)
        shrunk = [shrinker.shrink(sample, self.budget) for sample in test.samples]
        evaluator = type(test)(
            test.model,
            shrinker.processor,
            [each.sample for each in shrunk],
            batch_size=max(len(batch.rows) for batch in test.batches),
            max_new_tokens=test.max_new_tokens,
            costs=tuple(test.costs),
            score=test.score,
            progress=test.progress,
        )
        found: Evaluation = evaluator(None)
        name = sizes.cost.name
        charged = fmean(each.charged for each in shrunk)
        account = {
            "language": fmean(each.language for each in shrunk),
            "tower": fmean(each.tower for each in shrunk),
            "over_budget": sum(each.charged > self.budget + ROUNDING for each in shrunk),  # by their text alone
        }
        return replace(
            found,
            fraction={**dict.fromkeys(found.fraction, account["language"]), name: charged},
            details={**found.details, "downsample": account},
        )
