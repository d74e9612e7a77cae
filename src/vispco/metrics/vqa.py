"""VQA accuracy, for TextVQA and VizWiz: ten people answered each question, and agreeing with three is enough.

Official definition (visualqa.org/evaluation): with the ten answers normalised, the accuracy of an answer is the mean,
over the ten ways to leave one person out, of min(number of the other nine who gave that answer / 3, 1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vispco.metrics.contractions import RESTORED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.metrics.item import Item

ENOUGH = 3  # people who agree
ARTICLES = {"a", "an", "the"}
NUMBERS = {
    "none": "0", "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10",
}  # fmt: skip
PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
FULL_STOP = re.compile(r"\.(?!\d)")  # 3.5 keeps its point
DIGITS_COMMA = re.compile(r"\d,\d")


def normalize(answer: str) -> str:
    """The official normalisation: punctuation, lower case, number words, articles, contractions.

    A mark of punctuation becomes nothing where the text has it beside a space or holds a number such as 1,000, and a
    space everywhere else. One addition: an answer that consists of articles alone keeps them ("A" on a sign is "a").
    """
    text = re.sub(r"\s", " ", answer).strip()
    number = DIGITS_COMMA.search(text) is not None
    cleaned = text
    for mark in PUNCTUATION:
        beside_space = f"{mark} " in text or f" {mark}" in text
        cleaned = cleaned.replace(mark, "" if number or beside_space else " ")
    words = [NUMBERS.get(word, word) for word in FULL_STOP.sub("", cleaned).lower().split()]
    kept = [word for word in words if word not in ARTICLES] or words
    return " ".join(RESTORED.get(word, word) for word in kept)


def vqa_accuracy(prediction: str, answers: Sequence[str]) -> float:
    """The leave-one-out mean. With fewer than four answers nothing could score 1, so one match is then enough."""
    given = normalize(prediction)
    if not given:
        return 0.0
    matches = [normalize(answer) == given for answer in answers]
    if len(matches) <= ENOUGH:
        return float(any(matches))
    agree = sum(matches)
    return sum(min((agree - match) / ENOUGH, 1.0) for match in matches) / len(matches)


def vqa(prediction: str, item: Item) -> float:
    return vqa_accuracy(prediction, item.references)
