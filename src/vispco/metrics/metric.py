"""Metrics by name, and four of them: `exact`, `answer` (questions of one's own), `contains` (OCRBench), `yes-no` (MME).

`contains` is right if one of the accepted answers stands in the prediction; case and line breaks do not matter. For
handwritten formulas spaces do not count either, but case does. Short answers are easily contained by chance; that is the
benchmark's own rule and is kept.

`yes-no` reads words, not letters: "I know" holds no "no". An answer that opens with one of the two words, set off by
punctuation, means it whatever follows. Otherwise exactly one of the two must occur. "No idea" is not "no".
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from vispco.core.registry import Registry


class Item(Protocol):
    """The fields that a metric may read. `vispco.data.files.Record` is one."""

    @property
    def question(self) -> str: ...
    @property
    def references(self) -> tuple[str, ...]:
        """All accepted answers. One that a person left empty is an empty string."""

    @property
    def options(self) -> Mapping[str, str]:
        """The choices by letter; empty where the question is open."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Further columns of the row, such as `category`."""


Metric = Callable[[str, Item], float]
"""(prediction, item) -> score in [0, 1]. An empty prediction scores 0 in every metric."""

METRICS: Registry[Metric] = Registry("metric", "vispco.metrics")

_WORD = re.compile(r"[^\W_]+(?:[.,'’][^\W_]+)*")


@METRICS.register(name="exact")
def _exact(prediction: str, item: Item) -> float:
    """Whether the prediction is one of the accepted answers; case, spacing and a closing full stop do not matter."""
    given, *accepted = (" ".join(text.casefold().split()).removesuffix(".") for text in (prediction, *item.references))
    return float(bool(given) and given in accepted)


@METRICS.register(name="answer")
def _answer(prediction: str, item: Item) -> float:
    """By `option` where there are options; else right if an accepted answer stands in the prediction in whole words."""
    if item.options:
        return METRICS.get("option")(prediction, item)
    given, *accepted = (" ".join(_WORD.findall(text.casefold())) for text in (prediction, *item.references))
    stands = any(f" {text} " in f" {given} " for text in accepted if text)
    return float(stands or _exact(prediction, item))


FORMULA = "handwritten mathematical expression recognition"


@METRICS.register(name="contains")
def _contains(prediction: str, item: Item) -> float:
    """Whether any accepted answer is part of the prediction; an empty one is part of nothing."""
    category = str(item.meta.get("category") or item.meta.get("type", "")).strip().lower()
    texts = (prediction, *item.references)
    if category == FORMULA:
        given, *accepted = (re.sub(r"\s", "", text) for text in texts)
    else:
        given, *accepted = (text.strip().replace("\n", " ").lower() for text in texts)
    return float(any(answer in given for answer in accepted if answer))


FIRST = re.compile(r"\W*(yes|no)\b\s*(?:$|[.,;:!?)\]*\"'\n–—-])")
_EITHER = re.compile(r"(?<![\w'’])(yes|no)(?![\w'’])")
# Phrases with "no" in them that do not answer the question. "No. 5" is a number unless a sentence begins with it.
_IDLE = re.compile(
    r"\bno (?:idea|clue|doubt|way (?:to|of)|matter|problem|one knows)\b|\byes or no\b"
    r"|\bno (?:information|image|picture|question)\b(?=\W*$|\W*\n|,|\s+(?:is|was|are|were|has|have|provided|given|"
    r"available|attached|supplied|shown|visible|to (?:see|look|answer))\b)"
    r"|(?<=\w )\bno\.? ?\d+\b|^\W*no\.? ?\d+\W*$"
)


def _extract_yes_no(prediction: str) -> str | None:
    """The answer of a prediction, "yes" or "no"; None where it says neither or both."""
    text = _IDLE.sub(" ", prediction.strip().lower())
    first = FIRST.match(text)
    if first:
        return first.group(1)
    said = set(_EITHER.findall(text))
    return said.pop() if len(said) == 1 else None


@METRICS.register(name="yes-no")
def _yes_no(prediction: str, item: Item) -> float:
    said = _extract_yes_no(prediction)
    return float(said is not None and any(_extract_yes_no(answer) == said for answer in item.references))
