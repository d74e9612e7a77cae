"""MME: yes or no. The paper reports the share of right answers, in [0, 1], in place of MME's sum of points.

The words count, not the letters: "I know" holds no "no". An answer that opens with the one or the other, set off by
punctuation, means it whatever follows; otherwise exactly one of the two words must occur. "No idea" is not "no".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vispco.metrics.metric import Item

FIRST = re.compile(r"\W*(yes|no)\b\s*(?:$|[.,;:!?)\]*\"'\n–—-])")
EITHER = re.compile(r"(?<![\w'’])(yes|no)(?![\w'’])")
# Phrases with "no" in them that do not answer the question.
IDLE = re.compile(
    r"\bno (?:idea|clue|doubt|way (?:to|of)|matter|problem|one knows|information|image|picture|question)\b|\byes or no\b"
    r"|\bno\.? ?\d+\b"
)


def extract_yes_no(prediction: str) -> str | None:
    """What it says, "yes" or "no", or None where the prediction does not say."""
    text = prediction.strip().lower()
    text = IDLE.sub(" ", text)
    first = FIRST.match(text)
    if first:
        return first.group(1)
    said = set(EITHER.findall(text))
    return said.pop() if len(said) == 1 else None


def yes_no(prediction: str, item: Item) -> float:
    said = extract_yes_no(prediction)
    return float(said is not None and any(extract_yes_no(answer) == said for answer in item.references))
