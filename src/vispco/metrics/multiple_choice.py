"""Multiple choice, for A-OKVQA, SEEDBench and MMBench: right if the prediction chooses the right option.

A letter counts only where it stands as a label, never where it is a word or part of a name: "A dog" is not option A, nor
is "vitamin C" option C. A prediction that names several options chooses none, unless it then says which ("so the answer
is B"). One that chooses none is wrong: where VLMEvalKit asks a judge model, or draws at random, this gives 0.

Each rule gives a letter, UNDECIDED where it applies but the prediction does not choose one, or None where it does not
apply and the next rule is asked. Some rules look for the letter of an option, others for its words.
"""

import re
from collections.abc import Mapping

from vispco.metrics.metric import METRICS, Item

_UNDECIDED = ""

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\n+")
_DENIED = re.compile(
    r"\b(?:not|no|never|neither|nor|cannot|except|without|incorrect|wrong|false|unlikely|unclear|unsure|unable|unknown|"
    r"impossible|whether|either|or|exclud\w*|rul\w+ out|eliminat\w*|maybe|perhaps|might|could)\b|n['’]t\b",
    re.IGNORECASE,
)
_ALONE = re.compile(r"[\W_]*(?:(?i:option|choice|answer|answer is)[\W_]+)?([A-Za-z])[\W_]*")
_LEADING = re.compile(r"\s*(?:[(\[]\s*([A-Za-z])\s*[)\]]|([A-Za-z])(?:[.):]|\s*\n)|([A-Z])(?:\s*[,;]|\s+[-–—(]))")
_LISTED = re.compile(r"(?:^|[\s,(/])\(?([A-Z])(?:[.):,/]|\s+(?:and|or)\b|\s*$)")  # labels of a list: "A. ... B. ..."

# A bare capital counts where the sentence ends or goes on about the choice; a small one only at the end of it: "is a dog".
_LABEL = (
    r"(?:[(\[\"']\s*(?P<boxed>[A-Za-z])\s*[)\]\"']"
    r"|(?P<bare>[A-Z](?=[ \t]*(?:$|\n|[-.,;:!?()\]–—/&]|(?:because|since|as|which|for|based|given|is|and|or|not|rather)\b))"
    r"|[a-z](?=[ \t]*(?:$|\n|[.;!?]))))"
)
_CONCLUDED = re.compile(
    r"\b(?i:answer|choice|option|pick|choose|select|go with|going with|it is|it's|is|be|think|guess|believe|say|like"
    r"|probably|so|therefore|thus|hence)(?:,(?=\s))?"
    r"(?i:\s+(?:is|would be|should be|must be|will be|option|choice|answer|letter|therefore|clearly|likely|most likely"
    r"|probably|definitely|the correct answer|the right answer))*\s*[:=]?\s*(?i:option\s+|choice\s+|letter\s+)?"
    + _LABEL
)
_CORRECT = re.compile(
    r"(?<![\w'’])[(\[]?(?P<bare>[A-Z])[)\]]?\s+(?:is|seems|appears to be|must be|would be)\s+"
    r"(?:the\s+)?(?:most\s+|clearly\s+|only\s+)?(?:correct|right|best|true|accurate|likely|answer|option|choice)\b"
)
_MENTION = re.compile(r"[(\[]\s*(?P<boxed>[A-Z])\s*[)\]]|\b(?i:option|choice)\s+(?P<bare>[A-Z])\b")
_ALSO = re.compile(
    r"\s*[)\]]?\s*(?:,|/|&|\band/or\b|\bor\b|\band\b)+\s*(?:(?:maybe|perhaps|possibly|even|also|both)\s+)?"
    r"(?i:option\s+|choice\s+)?[(\[]?[A-Z]\b(?!['’])"
)
_RETRACTED = re.compile(
    r"\s*[)\]\"']?\s*(?:is|was|seems|looks|can)(?:n['’]t\b|not\b|\s+(?:clearly\s+|probably\s+)?"
    r"(?:not|wrong|incorrect|false|unlikely|impossible|excluded|out)\b)",
    re.IGNORECASE,
)
_TURN = re.compile(r"\b(?:but|so|therefore|thus|hence|then|which means)\b|,\s*$", re.IGNORECASE)  # a new thought begins
_FINAL = re.compile(r"\b(?:final|so|therefore|thus|hence|actually|correction|conclusion|overall)\b", re.IGNORECASE)


def _simplify(text: str) -> str:
    """A text for exact comparison: case, spacing, quotes around it and a full stop at its end do not matter."""
    return " ".join(text.casefold().split()).strip("\"'“”‘’").removesuffix(".").strip()


def _known(letter: str | None, options: Mapping[str, str]) -> str | None:
    return letter.upper() if letter and letter.upper() in options else None


def _alone(text: str, options: Mapping[str, str]) -> str | None:
    """Nothing but the letter: "B", "(b)", "Option B."."""
    found = _ALONE.fullmatch(text)
    return None if found is None else _known(found.group(1), options)


def _leading(text: str, options: Mapping[str, str]) -> str | None:
    """A label and then anything but further labels: "B. a cat", "(B) a cat", "B, because ..."."""
    found = _LEADING.match(text)
    letter = _known(found.group(found.lastindex or 0), options) if found else None
    if found is None or letter is None:
        return None
    first, _, rest = text.partition("\n")
    if _ALONE.fullmatch(first):  # the letter on a line of its own, then an explanation, which may name any option
        others = {line.strip()[:2].strip("(.): ") for line in rest.splitlines() if _ALONE.fullmatch(line)}
    else:
        rest, own = text[found.end() - 1 :], options[letter].strip()
        if text[found.end() :].lstrip().casefold().startswith(own.casefold()):
            rest = text[found.end() :].lstrip()[len(own) :]  # its own text may name others: "D. Both A and C"
        others = set(_LISTED.findall(rest))
    return _UNDECIDED if others & set(options) - {letter} else letter


def _concluded(text: str, options: Mapping[str, str]) -> str | None:
    """As in "The answer is B", "B is correct": one conclusion, or several of which the last is said to be the final one."""
    found: list[tuple[int, str, bool]] = []
    for pattern in (_CONCLUDED, _CORRECT):
        for match in pattern.finditer(text):
            letter = _known(match.groupdict().get("boxed") or match["bare"], options)
            before = _TURN.split(_SENTENCE.split(text[: match.start()])[-1])[-1]
            if letter and not _DENIED.search(before) and not _RETRACTED.match(text, match.end()):
                found.append((match.start(), letter, _ALSO.match(text, match.end()) is not None))
    if not found:
        return None
    start, letter, several = max(found)
    if several:
        return _UNDECIDED
    agreed = all(other == letter for _, other, _ in found)
    sentence = _SENTENCE.split(text[:start])[-1] + text[start:]
    return letter if agreed or _FINAL.search(sentence) else _UNDECIDED


def _mentioned(text: str, options: Mapping[str, str]) -> str | None:
    """Labels in prose, "(B)" or "option B": exactly one, in sentences that do not deny or doubt it."""
    found = [
        (_known(match["boxed"] or match["bare"], options), sentence)
        for sentence in _SENTENCE.split(text)
        for match in _MENTION.finditer(sentence)
    ]
    letters = {letter for letter, _ in found if letter}
    if not letters:
        return None
    if len(letters) > 1 or any(_DENIED.search(sentence) for letter, sentence in found if letter):
        return _UNDECIDED
    return letters.pop()


_WORD = re.compile(r"[^\W_]+(?:[.,'’][^\W_]+)*|[%$€£+−-](?=\d)")
_CLAUSE = re.compile(r"([^,.;:!\n]+)[,.;:!\n]\s*(.*)", re.DOTALL)
_ANSWER = re.compile(
    r"\b(?:answer|choice|option)\s*(?:is|:|would be|should be|must be)\s*:?\s*((?:[^,.;:!\n]|[,.:](?=\S))+?)"
    r"(?=\s*(?:$|[,.;:!](?:\s|$)|\n|\b(?:because|since|as|not|rather)\b))",
    re.IGNORECASE,
)
_REASON = re.compile(
    r"(?:because|since|as|not|rather|instead|there|it|the|this|that|he|she|they|in|i)\b", re.IGNORECASE
)


def _words(text: str) -> list[str]:
    """Lower-case words and numbers without articles. An article that is all there is stays."""
    found = _WORD.findall(text.lower())
    return [word for word in found if word not in ("a", "an", "the")] or found


def _same_words(text: str, options: Mapping[str, str]) -> list[str]:
    given = _words(text)
    return [letter for letter, option in options.items() if given and _words(option) == given]


def _exact_text(text: str, options: Mapping[str, str]) -> str | None:
    """The text of one option, sign by sign: "$1.50", "a*b", "<p>", "x"."""
    found = _same_text(text, options)
    return found[0] if len(found) == 1 else None


def _same_text(text: str, options: Mapping[str, str]) -> list[str]:
    """The options that are this text, sign by sign."""
    given = _simplify(text)
    return [letter for letter, option in options.items() if given and _simplify(option) == given]


def _whole_text(text: str, options: Mapping[str, str]) -> str | None:
    """The text of one option and nothing else, with or without its letter before it: "a cat", "B cat"."""
    if _LEADING.match(text):  # "A. cat" is a label, although "a cat" is a text
        same = [letter for letter, option in options.items() if option.strip().casefold() == text.strip().casefold()]
        return same[0] if len(same) == 1 else None
    found = _same_words(text, options) or [
        letter
        for letter, option in options.items()
        if option.strip() and _words(f"{letter} {option}") == _words(text) and text.lstrip().startswith(letter)
    ]
    if not found:
        return None
    return found[0] if len(found) == 1 else _UNDECIDED


def _concluded_text(text: str, options: Mapping[str, str]) -> str | None:
    """As in "the answer is a cat, not a dog": the clause after it is the text of one option."""
    found = {
        letter
        for match in _ANSWER.finditer(text)
        if not _DENIED.search(_TURN.split(_SENTENCE.split(text[: match.start()])[-1])[-1])
        for letter in _same_text(match.group(1), options) or _same_words(match.group(1), options)
    }
    if not found:
        return None
    return found.pop() if len(found) == 1 else _UNDECIDED


def _opening_text(text: str, options: Mapping[str, str]) -> str | None:
    """An option's text as the first clause, and then a reason or no other option: "No, there is none"."""
    clause = _CLAUSE.match(text)
    found = _same_words(clause.group(1), options) if clause else []
    if clause is None or len(found) != 1:
        return None
    others = {letter for sentence in _SENTENCE.split(clause.group(2)) for letter in _named(_words(sentence), options)}
    return _UNDECIDED if others - {found[0]} and not _REASON.match(clause.group(2)) else found[0]


def _text_within(text: str, options: Mapping[str, str]) -> str | None:
    """The one option whose words stand in the prediction, in sentences that do not deny or doubt them."""
    found: dict[str, bool] = {}
    for sentence in _SENTENCE.split(text):
        for letter in _named(_words(sentence), options):
            found[letter] = found.get(letter, False) or _is_denied(sentence, options[letter])
    if not found:
        return None
    letter, denied = next(iter(found.items()))
    return _UNDECIDED if len(found) > 1 or denied else letter


def _is_denied(sentence: str, option: str) -> bool:
    """Whether a sentence denies or doubts an option that it names. The option's own words do not count ("no parking").

    "Without" and "no" deny what follows them, not what stands before: "a man without a hat" is a man.
    """
    given, wanted = _words(sentence), _words(option)
    size = len(wanted)
    start = next((n for n in range(len(given)) if given[n : n + size] == wanted), len(given))
    before, after = " ".join(given[:start]), " ".join(given[start + size :])
    rest = re.sub(r"\b(?:without|no)\b", " ", after)
    return _DENIED.search(before) is not None or _DENIED.search(rest) is not None


def _named(sentence: list[str], options: Mapping[str, str]) -> set[str]:
    """Options that occur in a sentence, without those that are only part of a longer one: "dog" in "hot dog"."""
    wanted = {letter: _words(option) for letter, option in options.items() if option.strip()}
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


_THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
_ROLE = re.compile(r"\s*(?:assistant|model|gpt)\s*:\s*", re.IGNORECASE)
_LATEX = re.compile(r"\\(?:(?:boxed|text|mathrm|mathbf)\b|[()\[\]])")
_TAG = re.compile(r"</?[A-Za-z]+>")
_MARKS = "*`${}"

# The surest first. The first rule that applies decides, even where it decides that no option was chosen.
_RULES = (
    _alone,
    _exact_text,
    _whole_text,
    _concluded,
    _concluded_text,
    _leading,
    _opening_text,
    _mentioned,
    _text_within,
)


def _strip_markup(prediction: str, options: Mapping[str, str]) -> str:
    """The prediction without thoughts, role name, LaTeX, emphasis and tags; what an option contains is not markup."""
    texts = "".join(options.values())
    text = _LATEX.sub(" ", _ROLE.sub("", _THOUGHT.sub(" ", prediction), count=1))
    if not _TAG.search(texts):
        text = _TAG.sub(" ", text)
    return text.translate({ord(mark): " " for mark in _MARKS if mark not in texts}).strip()


def _extract_option(prediction: str, options: Mapping[str, str]) -> str | None:
    """The letter that the prediction chooses, or None. `options` are the texts by letter."""
    text = _strip_markup(prediction, options)
    for rule in _RULES if text else ():
        chosen = rule(text, options)
        if chosen is not None:
            return chosen or None
    return None


@METRICS.register(name="option")
def _option(prediction: str, item: Item) -> float:
    """The `option` metric. The dataset may give the right option by its letter or by its text."""
    chosen = _extract_option(prediction, item.options)
    letters = {answer.strip().upper() for answer in item.references} & set(item.options)
    texts = {letter for answer in item.references for letter in _same_words(answer, item.options)}
    return float(chosen is not None and chosen in (letters or texts))
