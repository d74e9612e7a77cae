"""Options that a prediction names by their words. Rules answer as those of `option_label` do."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vispco.metrics.option_label import DENIED, LEADING, SENTENCE, TURN, UNDECIDED, simplify

if TYPE_CHECKING:
    from collections.abc import Mapping

WORD = re.compile(r"[^\W_]+(?:[.,'’][^\W_]+)*|[%$€£+−-](?=\d)")
CLAUSE = re.compile(r"([^,.;:!\n]+)[,.;:!\n]\s*(.*)", re.DOTALL)
ANSWER = re.compile(
    r"\b(?:answer|choice|option)\s*(?:is|:|would be|should be|must be)\s*:?\s*((?:[^,.;:!\n]|[,.:](?=\S))+?)"
    r"(?=\s*(?:$|[,.;:!](?:\s|$)|\n|\b(?:because|since|as|not|rather)\b))",
    re.IGNORECASE,
)
REASON = re.compile(r"(?:because|since|as|not|rather|instead|there|it|the|this|that|he|she|they|in|i)\b", re.IGNORECASE)


def words(text: str) -> list[str]:
    """Lower-case words and numbers without articles. An article that is all there is stays."""
    found = WORD.findall(text.lower())
    return [word for word in found if word not in ("a", "an", "the")] or found


def same_words(text: str, options: Mapping[str, str]) -> list[str]:
    given = words(text)
    return [letter for letter, option in options.items() if given and words(option) == given]


def exact(text: str, options: Mapping[str, str]) -> str | None:
    """The text of one option, sign by sign: "$1.50", "a*b", "<p>", "x"."""
    found = same_text(text, options)
    return found[0] if len(found) == 1 else None


def same_text(text: str, options: Mapping[str, str]) -> list[str]:
    """The options that are this text, sign by sign."""
    given = simplify(text)
    return [letter for letter, option in options.items() if given and simplify(option) == given]


def whole(text: str, options: Mapping[str, str]) -> str | None:
    """The text of one option and nothing else, with or without its letter before it: "a cat", "B cat"."""
    if LEADING.match(text):  # "A. cat" is a label, although "a cat" is a text
        same = [letter for letter, option in options.items() if option.strip().casefold() == text.strip().casefold()]
        return same[0] if len(same) == 1 else None
    found = same_words(text, options) or [
        letter
        for letter, option in options.items()
        if option.strip() and words(f"{letter} {option}") == words(text) and text.lstrip().startswith(letter)
    ]
    if not found:
        return None
    return found[0] if len(found) == 1 else UNDECIDED


def concluded_text(text: str, options: Mapping[str, str]) -> str | None:
    """As in "the answer is a cat, not a dog": the clause after it is the text of one option."""
    found = {
        letter
        for match in ANSWER.finditer(text)
        if not DENIED.search(TURN.split(SENTENCE.split(text[: match.start()])[-1])[-1])
        for letter in same_text(match.group(1), options) or same_words(match.group(1), options)
    }
    if not found:
        return None
    return found.pop() if len(found) == 1 else UNDECIDED


def opening(text: str, options: Mapping[str, str]) -> str | None:
    """An option's text as the first clause, and then a reason or no other option: "No, there is none"."""
    clause = CLAUSE.match(text)
    found = same_words(clause.group(1), options) if clause else []
    if clause is None or len(found) != 1:
        return None
    others = {letter for sentence in SENTENCE.split(clause.group(2)) for letter in named(words(sentence), options)}
    return UNDECIDED if others - {found[0]} and not REASON.match(clause.group(2)) else found[0]


def within(text: str, options: Mapping[str, str]) -> str | None:
    """The one option whose words stand in the prediction, in sentences that do not deny or doubt them."""
    found: dict[str, bool] = {}
    for sentence in SENTENCE.split(text):
        for letter in named(words(sentence), options):
            found[letter] = found.get(letter, False) or is_denied(sentence, options[letter])
    if not found:
        return None
    letter, denied = next(iter(found.items()))
    return UNDECIDED if len(found) > 1 or denied else letter


def is_denied(sentence: str, option: str) -> bool:
    """Whether a sentence denies or doubts an option that it names. The option's own words do not count ("no parking").

    "Without" and "no" deny what follows them, not what stands before: "a man without a hat" is a man.
    """
    given, wanted = words(sentence), words(option)
    size = len(wanted)
    start = next((n for n in range(len(given)) if given[n : n + size] == wanted), len(given))
    before, after = " ".join(given[:start]), " ".join(given[start + size :])
    rest = re.sub(r"\b(?:without|no)\b", " ", after)
    return DENIED.search(before) is not None or DENIED.search(rest) is not None


def named(sentence: list[str], options: Mapping[str, str]) -> set[str]:
    """Options that occur in a sentence, without those that are only part of a longer one: "dog" in "hot dog"."""
    wanted = {letter: words(option) for letter, option in options.items() if option.strip()}
    spans = [
        (start, start + len(option), letter)
        for letter, option in wanted.items()
        for start in range(len(sentence) - len(option) + 1)
        if option and sentence[start : start + len(option)] == option
    ]
    return {
        letter
        for start, end, letter in spans
        if not any(a <= start and end <= b and b - a > end - start for a, b, _ in spans)
    }
