"""VLMEvalKit's own rules of scoring, without its judge model, for `--protocol vlmevalkit`.

They are here to compare with published figures. Our own metrics read more right answers and fewer wrong ones as right.
Checked against VLMEvalKit's functions by benchmarks/protocol.py. ChartQA and OCRBench need nothing here: `relaxed` and
`contains` are VLMEvalKit's rules already.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vispco.metrics.metric import METRICS
from vispco.metrics.vqa import ARTICLES, CONTRACTIONS, ENOUGH, NUMBERS, strip_punctuation

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.metrics.metric import Item

SEPARATORS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
CONCLUSION = re.compile(r"(?:correct\s+)?answer\s+is\s+\**([ABCD])\**", re.IGNORECASE)
REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
FAILED = "Failed to obtain answer via API"
LAST_WORDS = 4  # a letter counts as the answer among the last words only
FULL_STOP = re.compile(r"(?<!\d)\.(?!\d)")
MOST_FULL_STOPS = 32  # later ones stay, because of a misplaced argument in VLMEvalKit
NO_OPTION = "Z"


def infer_letter(prediction: str, options: Mapping[str, str]) -> str | None:
    """The letter that a prediction names; `NO_OPTION` where it refuses; None where no rule applies."""
    if FAILED in prediction:
        return None
    if any(refusal in prediction for refusal in REFUSALS):
        return NO_OPTION
    words = prediction.translate(SEPARATORS).split()
    named = [letter for letter in options if letter in words]
    if len(named) == 1 and words.index(named[0]) >= len(words) - LAST_WORDS:
        return named[0]
    if not named and NO_OPTION in words:
        return NO_OPTION
    concluded = CONCLUSION.search(prediction)
    letter = concluded.group(1).upper() if concluded else ""
    return letter if letter in options else None


def infer_text(prediction: str, options: Mapping[str, str]) -> str | None:
    """The only option whose text is part of a prediction that is not much longer than all options."""
    if len(prediction) > 2 * sum(map(len, options.values())):
        return None
    named = [letter for letter, text in options.items() if text.lower() in prediction.lower()]
    return named[0] if len(named) == 1 else None


@METRICS.register(name="vlmevalkit-option")
def vlmevalkit_option(prediction: str, item: Item) -> float:
    """Multiple choice by VLMEvalKit's `exact_matching`: the letter if there is one, else the text of one option."""
    chosen = infer_letter(prediction, item.options) or infer_text(prediction, item.options)
    return float(bool(prediction.strip()) and chosen is not None and chosen in item.references)


@METRICS.register(name="vlmevalkit-yes-no")
def vlmevalkit_yes_no(prediction: str, item: Item) -> float:
    """Yes or no where exactly one of the two words occurs."""
    words = set(without_full_stops(strip_punctuation(prediction.lower())).split())
    said = words & {"yes", "no"}
    return float(len(said) == 1 and said.pop().capitalize() in item.references)


@METRICS.register(name="vlmevalkit-vqa")
def vlmevalkit_vqa(prediction: str, item: Item) -> float:
    """VQA accuracy: the mean over people of min(others who gave the answer / 3, 1), whatever their number."""
    given = normalize(prediction)
    if not prediction.strip():
        return 0.0
    matches = [normalize(answer) == given for answer in item.references]
    agree = sum(matches)
    return sum(min((agree - match) / ENOUGH, 1.0) for match in matches) / max(1, len(matches))


def normalize(answer: str) -> str:
    """VLMEvalKit's normalisation: a full stop after a digit stays, and articles always go."""
    text = re.sub(r"[\n\t]", " ", answer).strip()
    words = without_full_stops(strip_punctuation(text)).lower().split()
    kept = [word for word in (NUMBERS.get(word, word) for word in words) if word not in ARTICLES]
    return " ".join(CONTRACTIONS.get(word, word) for word in kept)


def without_full_stops(text: str) -> str:
    """The text without full stops that touch no digit."""
    return FULL_STOP.sub("", text, count=MOST_FULL_STOPS)
