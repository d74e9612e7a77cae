"""OCRBench: right if one of the accepted answers stands in the prediction.

Official definition: case and line breaks do not matter. For handwritten formulas spaces do not count either, but case does.
Short answers are easily contained by chance; that is the benchmark's own rule and is kept.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vispco.metrics.metric import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.metrics.metric import Item

FORMULA = "handwritten mathematical expression recognition"


def contains_answer(prediction: str, answers: Sequence[str], *, formula: bool = False) -> float:
    """1.0 if any answer is part of the prediction; an empty answer is part of nothing."""
    given, *accepted = (squeeze(text, formula=formula) for text in (prediction, *answers))
    return float(any(answer in given for answer in accepted if answer))


def squeeze(text: str, *, formula: bool) -> str:
    """A text as it is compared: without spaces for a formula, else in lower case on one line."""
    if formula:
        return re.sub(r"\s", "", text)
    return text.strip().replace("\n", " ").lower()


@METRICS.register(name="contains")
def containment(prediction: str, item: Item) -> float:
    """The `contains` metric."""
    category = str(item.meta.get("category", "")).strip().lower()
    return contains_answer(prediction, item.references, formula=category == FORMULA)
