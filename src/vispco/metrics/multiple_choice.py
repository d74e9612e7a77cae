"""Multiple choice, for A-OKVQA, SEEDBench and MMBench: right if the prediction chooses the right option.

A letter counts only where it stands as a label, never where it is a word or part of a name: "A dog" is not option A, nor
is "vitamin C" option C. A prediction that names several options chooses none, unless it then says which ("so the answer
is B"). One that chooses none is wrong: where VLMEvalKit asks a judge model, or draws at random, this gives 0.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vispco.metrics import option_label, option_text
from vispco.metrics.metric import METRICS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.metrics.metric import Item

THOUGHT = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL | re.IGNORECASE)
ROLE = re.compile(r"\s*(?:assistant|model|gpt)\s*:\s*", re.IGNORECASE)
LATEX = re.compile(r"\\(?:(?:boxed|text|mathrm|mathbf)\b|[()\[\]])")
TAG = re.compile(r"</?[A-Za-z]+>")
MARKS = "*`${}"

# The surest first. The first rule that applies decides, even where it decides that no option was chosen.
RULES = (
    option_label.alone,
    option_text.exact,
    option_text.whole,
    option_label.concluded,
    option_text.concluded_text,
    option_label.leading,
    option_text.opening,
    option_label.mentioned,
    option_text.within,
)


def strip_markup(prediction: str, options: Mapping[str, str]) -> str:
    """The prediction without thoughts, role name, LaTeX, emphasis and tags; what an option contains is not markup."""
    texts = "".join(options.values())
    text = LATEX.sub(" ", ROLE.sub("", THOUGHT.sub(" ", prediction), count=1))
    if not TAG.search(texts):
        text = TAG.sub(" ", text)
    return text.translate({ord(mark): " " for mark in MARKS if mark not in texts}).strip()


def extract_option(prediction: str, options: Mapping[str, str]) -> str | None:
    """The letter that the prediction chooses, or None. `options` are the texts by letter."""
    text = strip_markup(prediction, options)
    for rule in RULES if text else ():
        chosen = rule(text, options)
        if chosen is not None:
            return chosen or None
    return None


@METRICS.register(name="option")
def options(prediction: str, item: Item) -> float:
    """The `option` metric. The dataset may give the right option by its letter or by its text."""
    chosen = extract_option(prediction, item.options)
    letters = {answer.strip().upper() for answer in item.references} & set(item.options)
    texts = {letter for answer in item.references for letter in option_text.same_words(answer, item.options)}
    return float(chosen is not None and chosen in (letters or texts))
