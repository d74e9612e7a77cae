"""MME: yes or no. The score of one question is 0 or 1; `benchmarks/paper.py` adds MME's points.

Words count, not letters: "I know" holds no "no". An answer that opens with one of the two words, set off by punctuation,
means it whatever follows. Otherwise exactly one of the two must occur. "No idea" is not "no".
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vispco.metrics.metric import METRICS

if TYPE_CHECKING:
    from vispco.metrics.metric import Item

FIRST = re.compile(r"\W*(yes|no)\b\s*(?:$|[.,;:!?)\]*\"'\n–—-])")
EITHER = re.compile(r"(?<![\w'’])(yes|no)(?![\w'’])")
# Phrases with "no" in them that do not answer the question. "No. 5" is a number unless a sentence begins with it.
IDLE = re.compile(
    r"\bno (?:idea|clue|doubt|way (?:to|of)|matter|problem|one knows)\b|\byes or no\b"
    r"|\bno (?:information|image|picture|question)\b(?=\W*$|\W*\n|,|\s+(?:is|was|are|were|has|have|provided|given|"
    r"available|attached|supplied|shown|visible|to (?:see|look|answer))\b)"
    r"|(?<=\w )\bno\.? ?\d+\b|^\W*no\.? ?\d+\W*$"
)


def extract_yes_no(prediction: str) -> str | None:
    """What a prediction says, "yes" or "no", or None where it says neither or both."""
    text = IDLE.sub(" ", prediction.strip().lower())
    first = FIRST.match(text)
    if first:
        return first.group(1)
    said = set(EITHER.findall(text))
    return said.pop() if len(said) == 1 else None


@METRICS.register(name="yes-no")
def yes_no(prediction: str, item: Item) -> float:
    """The `yes-no` metric."""
    said = extract_yes_no(prediction)
    return float(said is not None and any(extract_yes_no(answer) == said for answer in item.references))
