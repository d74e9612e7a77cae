"""OCRBench: an accepted answer stands in the prediction; formulas without spaces and with their case."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vispco.metrics.metric import METRICS

FORMULA = "Handwritten Mathematical Expression Recognition"


@pytest.mark.parametrize(
    ("prediction", "answers", "category", "score"),
    [
        ("The word is CENTRE.", ["centre"], "Regular Text Recognition", 1.0),
        ("centre", ["CENTRE"], "", 1.0),
        ("two\nlines", ["two lines"], "", 1.0),
        ("center", ["centre"], "", 0.0),
        ("1 2 3", ["123"], "Digit String Recognition", 0.0),
        ("either", ["x", "y", "either"], "", 1.0),
        ("I cannot tell", ["centre"], "", 0.0),
        ("\\frac { 1 } { 2 }", ["\\frac{1}{2}"], FORMULA, 1.0),
        ("x = 1 2", ["x\n= 12"], FORMULA, 1.0),
        ("X = 12", ["x = 12"], FORMULA, 0.0),
        ("", ["centre"], "", 0.0),
        ("", [""], "", 0.0),
        ("anything", ["", " "], "", 0.0),
        ("anything", [], "", 0.0),
        (" ", [" "], FORMULA, 0.0),
    ],
)
def test_containment(prediction, answers, category, score):
    item = SimpleNamespace(references=tuple(answers), options={}, meta={"category": category})
    assert METRICS.get("contains")(prediction, item) == score


@given(st.text(), st.text(), st.text(), st.booleans())
def test_an_answer_is_found_wherever_it_stands(before, answer, after, formula):
    wanted = float(bool("".join(answer.split()))) if formula else None
    item = SimpleNamespace(references=(answer,), options={}, meta={"category": FORMULA if formula else ""})
    score = METRICS.get("contains")(f"{before} {answer} {after}", item)
    assert score in (0.0, 1.0)
    if wanted is not None and answer.isascii():
        assert score == wanted
