"""VQA accuracy (TextVQA, VizWiz), and VLMEvalKit's own rules, which `--protocol vlmevalkit` scores by.

Official definition (visualqa.org/evaluation): with the ten answers normalised, the accuracy of an answer is the mean,
over the ten ways to leave one person out, of min(number of the other nine who gave that answer / 3, 1).

VLMEvalKit's rules, without its judge model, are here to compare with published figures; `benchmarks/protocol.py` checks
them against its functions. ChartQA and OCRBench need none: `relaxed` and `contains` are VLMEvalKit's rules already.
"""

import re
from collections.abc import Mapping, Sequence

from vispco.metrics.metric import METRICS, Item

_ENOUGH = 3  # people who agree
_ARTICLES = {"a", "an", "the"}
_NUMBERS = {
    "none": "0", "zero": "0", "one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6", "seven": "7",
    "eight": "8", "nine": "9", "ten": "10",
}  # fmt: skip
_PUNCTUATION = ';/[]"{}()=+\\_-><@`,?!'
_FULL_STOP = re.compile(r"\.(?!\d)")  # 3.5 keeps its point
_DIGITS_COMMA = re.compile(r"\d,\d")

# Contractions that the official evaluation restores when an apostrophe was left out.
_FORMS = """
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
    for form in _FORMS.split()
    for place, character in enumerate(form)
    if character == "'"
}  # fmt: skip


def _normalize(answer: str) -> str:
    """The official normalisation: punctuation, lower case, number words, articles, contractions.

    A mark of punctuation becomes nothing where the text has it beside a space or holds a number such as 1,000, and a
    space everywhere else. One addition: an answer that consists of articles alone keeps them ("A" on a sign is "a").
    """
    cleaned = _strip_punctuation(re.sub(r"\s", " ", answer).strip())
    words = [_NUMBERS.get(word, word) for word in _FULL_STOP.sub("", cleaned).lower().split()]
    kept = [word for word in words if word not in _ARTICLES] or words
    return " ".join(CONTRACTIONS.get(word, word) for word in kept)


def _strip_punctuation(text: str) -> str:
    """The text without the marks of `_PUNCTUATION`. Full stops are left in it."""
    number = _DIGITS_COMMA.search(text) is not None
    cleaned = text
    for mark in _PUNCTUATION:
        next_to_space = f"{mark} " in text or f" {mark}" in text
        cleaned = cleaned.replace(mark, "" if number or next_to_space else " ")
    return cleaned


def _vqa_accuracy(prediction: str, answers: Sequence[str]) -> float:
    """The leave-one-out mean. With fewer than four answers nothing could score 1, so one match is then enough."""
    given = _normalize(prediction)
    if not given:
        return 0.0
    matches = [_normalize(answer) == given for answer in answers]
    if len(matches) <= _ENOUGH:
        return float(any(matches))
    agree = sum(matches)
    return sum(min((agree - match) / _ENOUGH, 1.0) for match in matches) / len(matches)


@METRICS.register(name="vqa")
def _vqa(prediction: str, item: Item) -> float:
    return _vqa_accuracy(prediction, item.references)


_SEPARATORS = str.maketrans(dict.fromkeys(".()[],:;!*#{}", " "))
_CONCLUSION = re.compile(r"(?:correct\s+)?answer\s+is\s+\**([ABCD])\**", re.IGNORECASE)
_REFUSALS = (
    "Sorry, I can't help with images of people yet.",
    "I can't process this file.",
    "I'm sorry, but without the image provided",
    "Cannot determine the answer",
)
FAILED = "Failed to obtain answer via API"
_LAST_WORDS = 4  # a letter counts as the answer among the last words only
_LONE_FULL_STOP = re.compile(r"(?<!\d)\.(?!\d)")
_MOST_FULL_STOPS = 32  # later ones stay, because of a misplaced argument in VLMEvalKit
_NO_OPTION = "Z"


def _infer_letter(prediction: str, options: Mapping[str, str]) -> str | None:
    """The letter that a prediction names; `_NO_OPTION` where it refuses; None where no rule applies."""
    if FAILED in prediction:
        return None
    if any(refusal in prediction for refusal in _REFUSALS):
        return _NO_OPTION
    words = prediction.translate(_SEPARATORS).split()
    named = [letter for letter in options if letter in words]
    if len(named) == 1 and words.index(named[0]) >= len(words) - _LAST_WORDS:
        return named[0]
    if not named and _NO_OPTION in words:
        return _NO_OPTION
    concluded = _CONCLUSION.search(prediction)
    letter = concluded.group(1).upper() if concluded else ""
    return letter if letter in options else None


def _infer_text(prediction: str, options: Mapping[str, str]) -> str | None:
    """The only option whose text is part of a prediction that is not much longer than all options."""
    if len(prediction) > 2 * sum(map(len, options.values())):
        return None
    named = [letter for letter, text in options.items() if text.lower() in prediction.lower()]
    return named[0] if len(named) == 1 else None


@METRICS.register(name="vlmevalkit-option")
def _vlmevalkit_option(prediction: str, item: Item) -> float:
    """Multiple choice by VLMEvalKit's `exact_matching`: the letter if there is one, else the text of one option."""
    chosen = _infer_letter(prediction, item.options) or _infer_text(prediction, item.options)
    return float(bool(prediction.strip()) and chosen is not None and chosen in item.references)


@METRICS.register(name="vlmevalkit-yes-no")
def _vlmevalkit_yes_no(prediction: str, item: Item) -> float:
    """Yes or no where exactly one of the two words occurs."""
    words = set(_without_full_stops(_strip_punctuation(prediction.lower())).split())
    said = words & {"yes", "no"}
    return float(len(said) == 1 and said.pop().capitalize() in item.references)


@METRICS.register(name="vlmevalkit-vqa")
def _vlmevalkit_vqa(prediction: str, item: Item) -> float:
    """VQA accuracy: the mean over people of min(others who gave the answer / 3, 1), whatever their number."""
    given = _vlmevalkit_normalize(prediction)
    if not prediction.strip():
        return 0.0
    matches = [_vlmevalkit_normalize(answer) == given for answer in item.references]
    agree = sum(matches)
    return sum(min((agree - match) / _ENOUGH, 1.0) for match in matches) / max(1, len(matches))


def _vlmevalkit_normalize(answer: str) -> str:
    """VLMEvalKit's normalisation: a full stop after a digit stays, and articles always go."""
    text = re.sub(r"[\n\t]", " ", answer).strip()
    words = _without_full_stops(_strip_punctuation(text)).lower().split()
    kept = [word for word in (_NUMBERS.get(word, word) for word in words) if word not in _ARTICLES]
    return " ".join(CONTRACTIONS.get(word, word) for word in kept)


def _without_full_stops(text: str) -> str:
    """The text without full stops that touch no digit."""
    return _LONE_FULL_STOP.sub("", text, count=_MOST_FULL_STOPS)
