"""VQA accuracy, for TextVQA and VizWiz: ten people answered each question, and agreeing with three is enough.

Official definition (visualqa.org/evaluation): with the ten answers normalised, the accuracy of an answer is the mean,
over the ten ways to leave one person out, of min(number of the other nine who gave that answer / 3, 1).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vispco.metrics.metric import METRICS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.metrics.metric import Item

ENOUGH = 3  # people who agree
ARTICLES = {"a", "an", "the"}
NUMBERS = {
    "none": "0", "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10",
}  # fmt: skip
PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
FULL_STOP = re.compile(r"\.(?!\d)")  # 3.5 keeps its point
DIGITS_COMMA = re.compile(r"\d,\d")

# Contractions that the official evaluation restores when an apostrophe was left out.
FORMS = """
ain't aren't can't could've couldn't couldn't've didn't doesn't don't hadn't hadn't've hasn't haven't he'd he'd've he's
how'd how'll how's isn't it'd it'd've it'll ma'am might've mightn't mightn't've must've mustn't needn't not've o'clock
oughtn't 'ow's'at shan't she'd've should've shouldn't shouldn't've somebody'd somebody'd've somebody'll somebody's
someone'd someone'd've someone'll someone's something'd something'd've something'll that's there'd there'd've there're
there's they'd they'd've they'll they're they've 'twas wasn't we'd've we've weren't what'll what're what's what've
when's where'd where's where've who'd who'd've who'll who's who've why'll why're why's won't would've wouldn't
wouldn't've y'all y'all'll y'all'd've you'd you'd've you'll you're you've
"""

# Each form with exactly one apostrophe left out. Where that is another word ("hell", "were"), the form is not listed.
CONTRACTIONS = {
    form[:place] + form[place + 1 :]: form
    for form in FORMS.split()
    for place, character in enumerate(form)
    if character == "'"
}  # fmt: skip


def normalize(answer: str) -> str:
    """The official normalisation: punctuation, lower case, number words, articles, contractions.

    A mark of punctuation becomes nothing where the text has it beside a space or holds a number such as 1,000, and a
    space everywhere else. One addition: an answer that consists of articles alone keeps them ("A" on a sign is "a").
    """
    cleaned = strip_punctuation(re.sub(r"\s", " ", answer).strip())
    words = [NUMBERS.get(word, word) for word in FULL_STOP.sub("", cleaned).lower().split()]
    kept = [word for word in words if word not in ARTICLES] or words
    return " ".join(CONTRACTIONS.get(word, word) for word in kept)


def strip_punctuation(text: str) -> str:
    """The text without the marks of `PUNCTUATION`. Full stops are left in it."""
    number = DIGITS_COMMA.search(text) is not None
    cleaned = text
    for mark in PUNCTUATION:
        next_to_space = f"{mark} " in text or f" {mark}" in text
        cleaned = cleaned.replace(mark, "" if number or next_to_space else " ")
    return cleaned


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


@METRICS.register(name="vqa")
def vqa(prediction: str, item: Item) -> float:
    """The `vqa` metric."""
    return vqa_accuracy(prediction, item.references)
