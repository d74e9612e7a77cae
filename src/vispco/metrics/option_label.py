"""Options that a prediction names by their letter.

Each rule gives a letter, UNDECIDED where it applies but the prediction does not choose one, or None where it does not
apply and the next rule is asked.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

UNDECIDED = ""

SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
DENIED = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|except|without|incorrect|wrong|false|unlikely|unclear|unsure|unable|unknown|"
    r"impossible|whether|either|or|exclud\w*|rul\w+ out|eliminat\w*|maybe|perhaps|might|could)\b|n['’]t\b",
    re.IGNORECASE,
)
ALONE = re.compile(r"[\W_]*(?:(?i:option|choice|answer|answer is)[\W_]+)?([A-Za-z])[\W_]*")
LEADING = re.compile(r"\s*(?:[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])(?:[.):]|\s*\n)|([A-Z])(?:\s*[,;]|\s+[-–—(]))")
LISTED = re.compile(r"(?:^|[\s,(/])\(?([A-Z])(?:[.):,/]|\s+(?:and|or)\b|\s*$)")  # labels of a list: "A. ... B. ..."

# A bare capital counts where the sentence ends or goes on about the choice; a small one only at the end of it: "is a dog".
LABEL = (
    r"(?:[(\[\"']\s*(?P<boxed>[A-Za-z])\s*[)\]\"']"
    r"|(?P<bare>[A-Z](?=[ \t]*(?:$|\n|[-.,;:!?()\]–—/&]|(?:because|since|as|which|for|based|given|is|and|or|not|rather)\b))"
    r"|[a-z](?=[ \t]*(?:$|\n|[.;!?]))))"
)
CONCLUDED = re.compile(
    r"\b(?i:answer|choice|option|pick|choose|select|go with|going with|it is|it's|is|be|think|guess|believe|say|like"
    r"|probably|so|therefore|thus|hence)(?:,(?=\s))?"
    r"(?i:\s+(?:is|would be|should be|must be|will be|option|choice|answer|letter|therefore|clearly|likely|most likely"
    r"|probably|definitely|the correct answer|the right answer))*\s*[:=]?\s*(?i:option\s+|choice\s+|letter\s+)?" + LABEL
)
CORRECT = re.compile(
    r"(?<![\w'’])[(\[]?(?P<bare>[A-Z])[)\]]?\s+(?:is|seems|appears to be|must be|would be)\s+"
    r"(?:the\s+)?(?:most\s+|clearly\s+|only\s+)?(?:correct|right|best|true|accurate|likely|answer|option|choice)\b"
)
MENTION = re.compile(r"[(\[]\s*(?P<boxed>[A-Z])\s*[)\]]|\b(?i:option|choice)\s+(?P<bare>[A-Z])\b")
ALSO = re.compile(
    r"\s*[)\]]?\s*(?:,|/|&|\band/or\b|\bor\b|\band\b)+\s*(?:(?:maybe|perhaps|possibly|even|also|both)\s+)?"
    r"(?i:option\s+|choice\s+)?[(\[]?[A-Z]\b(?!['’])"
)
RETRACTED = re.compile(
    r"\s*[)\]\"']?\s*(?:is|was|seems|looks|can)(?:n['’]t\b|not\b|\s+(?:clearly\s+|probably\s+)?"
    r"(?:not|wrong|incorrect|false|unlikely|impossible|excluded|out)\b)",
    re.IGNORECASE,
)
TURN = re.compile(r"\b(?:but|so|therefore|thus|hence|then|which means)\b|,\s*$", re.IGNORECASE)  # a new thought begins
FINAL = re.compile(r"\b(?:final|so|therefore|thus|hence|actually|correction|conclusion|overall)\b", re.IGNORECASE)


def simplify(text: str) -> str:
    """A text for exact comparison: case, spacing, quotes around it and a full stop at its end do not matter."""
    return " ".join(text.casefold().split()).strip("\"'“”‘’").removesuffix(".").strip()


def known(letter: str | None, options: Mapping[str, str]) -> str | None:
    return letter.upper() if letter and letter.upper() in options else None


def alone(text: str, options: Mapping[str, str]) -> str | None:
    """Nothing but the letter: "B", "(b)", "Option B."."""
    found = ALONE.fullmatch(text)
    return None if found is None else known(found.group(1), options)


def leading(text: str, options: Mapping[str, str]) -> str | None:
    """A label and then anything but further labels: "B. a cat", "(B) a cat", "B, because ..."."""
    found = LEADING.match(text)
    letter = known(found.group(found.lastindex or 0), options) if found else None
    if found is None or letter is None:
        return None
    first, _, rest = text.partition("\n")
    if ALONE.fullmatch(first):  # the letter on a line of its own, then an explanation, which may name any option
        others = {line.strip()[:2].strip("(.): ") for line in rest.splitlines() if ALONE.fullmatch(line)}
    else:
        rest, own = text[found.end() - 1 :], options[letter].strip()
        if text[found.end() :].lstrip().casefold().startswith(own.casefold()):
            rest = text[found.end() :].lstrip()[len(own) :]  # its own text may name others: "D. Both A and C"
        others = set(LISTED.findall(rest))
    return UNDECIDED if others & set(options) - {letter} else letter


def concluded(text: str, options: Mapping[str, str]) -> str | None:
    """As in "The answer is B", "B is correct": one conclusion, or several of which the last is said to be the final one."""
    found: list[tuple[int, str, bool]] = []
    for pattern in (CONCLUDED, CORRECT):
        for match in pattern.finditer(text):
            letter = known(match.groupdict().get("boxed") or match["bare"], options)
            before = TURN.split(SENTENCE.split(text[: match.start()])[-1])[-1]
            if letter and not DENIED.search(before) and not RETRACTED.match(text, match.end()):
                found.append((match.start(), letter, ALSO.match(text, match.end()) is not None))
    if not found:
        return None
    start, letter, several = max(found)
    if several:
        return UNDECIDED
    agreed = all(other == letter for _, other, _ in found)
    sentence = SENTENCE.split(text[:start])[-1] + text[start:]
    return letter if agreed or FINAL.search(sentence) else UNDECIDED


def mentioned(text: str, options: Mapping[str, str]) -> str | None:
    """Labels in prose, "(B)" or "option B": exactly one, in sentences that do not deny or doubt it."""
    found = [
        (known(match["boxed"] or match["bare"], options), sentence)
        for sentence in SENTENCE.split(text)
        for match in MENTION.finditer(sentence)
    ]
    letters = {letter for letter, _ in found if letter}
    if not letters:
        return None
    if len(letters) > 1 or any(DENIED.search(sentence) for letter, sentence in found if letter):
        return UNDECIDED
    return letters.pop()
