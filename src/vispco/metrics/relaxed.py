"""Relaxed accuracy, for ChartQA: a number may be 5 % off, anything else must be the same.

`relaxed` is the official rule (Masry et al. 2022, section 5.1, after Methani et al. 2020), as pix2struct, VLMEvalKit and
lmms-eval compute it: if both sides are plain numbers, within 5 % of the gold answer; otherwise the same text in any case.
A number that ends with % counts as its hundredth. Separators, units and currencies make a number a text.

`relaxed-lenient` also reads quantities. "12%" is right where the gold answer is 12, 12% or 0.12, because charts leave the
sign to the axis. "3.5 million" is 3.5 or 3,500,000. Separators, units and currencies are ignored, unless both sides have
a unit and they differ. Its scores cannot be compared with published ones.

Where the gold answer is 0, there is no 5 % of it: the prediction must be 0. Years are numbers to both rules, so 2018 is
right for 2019.
"""

import re
from dataclasses import dataclass

from vispco.metrics.metric import METRICS, Item

_TOLERANCE = 0.05
_SCALES = {
    "%": 0.01, "percent": 0.01, "per cent": 0.01, "k": 1e3, "thousand": 1e3, "m": 1e6, "mn": 1e6, "million": 1e6,
    "bn": 1e9, "b": 1e9, "billion": 1e9, "t": 1e12, "tn": 1e12, "trillion": 1e12,
}  # fmt: skip
_UNITS = {"usd": "$", "us$": "$", "dollar": "$", "eur": "€", "euro": "€", "pound": "£", "yen": "¥"}  # spellings of one
_NUMBER = re.compile(
    r"(?P<sign>[-+−]?)\s*(?P<currency>[$€£¥₹]|usd|eur|us\$)?\s*(?P<inner>[-+−]?)"
    r"(?P<digits>\d{1,3}(?:[, \u00a0]\d{3})+(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)(?P<power>e[-+]?\d{1,3})?"
    r"\s*(?P<unit>%|per ?cent|[a-z°/²³$€£¥]+)?(?:\s+(?P<second>[a-z]+))?"
)


@dataclass(frozen=True, slots=True)
class _Quantity:
    value: float
    scale: float  # what a % sign or the word million multiplies it by
    unit: str


def _parse_quantity(text: str) -> _Quantity | None:
    """A number with at most a scale and a unit; None for anything that says more than that."""
    found = _NUMBER.fullmatch(_simplify(text))
    if found is None:
        return None
    digits = re.sub(r"[, \u00a0]", "", found["digits"])
    value = float(digits + (found["power"] or ""))
    negative = any(sign in ("-", "−") for sign in (found["sign"], found["inner"]))
    words = [word for word in (found["unit"], found["second"]) if word]
    scale = _SCALES.get(words[0]) if words else None
    if scale is not None:
        words = words[1:]
    elif len(words) > 1:  # "12 red dogs" is a text, not a number
        return None
    unit = words[0].removesuffix("s") if words else (found["currency"] or "")
    return _Quantity(-value if negative else value, scale or 1.0, _UNITS.get(unit, unit))


def _simplify(text: str) -> str:
    """Case, spaces at the ends or in a row, quotes around it and a closing full stop do not matter."""
    return " ".join(text.lower().split()).strip("\"'`").removesuffix(".").strip()


def _plain_number(text: str) -> float | None:
    """A number as `float` reads it, a percentage as its hundredth; None for any other text."""
    try:
        return float(text.rstrip("%")) / 100 if text.endswith("%") else float(text)
    except ValueError:
        return None


def _relaxed_accuracy(prediction: str, answer: str) -> float:
    """The official rule."""
    given = prediction.strip()
    left, right = _plain_number(given), _plain_number(answer)
    if left is not None and right:
        return float(abs(left - right) / abs(right) <= _TOLERANCE)
    return float(bool(given) and given.lower() == answer.lower())


def _lenient_accuracy(prediction: str, answer: str) -> float:
    """The rule that also reads quantities with separators, scales, units and currencies."""
    given, wanted = _simplify(prediction), _simplify(answer)
    if not given or not wanted:
        return 0.0
    if given == wanted:
        return 1.0
    left, right = _parse_quantity(prediction), _parse_quantity(answer)
    if left is None or right is None or (left.unit and right.unit and left.unit != right.unit):
        return 0.0
    if left.scale == right.scale:
        return float(_near(left.value, right.value))
    # One side has the sign or the word: the other may mean the number before it, or the number in full.
    full = _near(left.value * left.scale, right.value * right.scale)
    return float(full or ((left.scale == 1.0 or right.scale == 1.0) and _near(left.value, right.value)))


def _near(given: float, wanted: float) -> bool:
    return abs(given - wanted) <= _TOLERANCE * abs(wanted) * (1 + 1e-9)


@METRICS.register(name="relaxed")
def _relaxed(prediction: str, item: Item) -> float:
    """The official rule; the best over the accepted answers."""
    return max((_relaxed_accuracy(prediction, answer) for answer in item.references), default=0.0)


@METRICS.register(name="relaxed-lenient")
def _relaxed_lenient(prediction: str, item: Item) -> float:
    """The lenient rule; the best over the accepted answers."""
    return max((_lenient_accuracy(prediction, answer) for answer in item.references), default=0.0)
