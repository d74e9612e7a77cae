"""ChartQA's relaxed accuracy, the official and the lenient one: numbers within 5 %, everything else exactly."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vispco.metrics import METRICS
from vispco.metrics.relaxed import _lenient_accuracy, _parse_quantity, _Quantity, _relaxed_accuracy

relaxed, relaxed_lenient = METRICS.get("relaxed"), METRICS.get("relaxed-lenient")

RIGHT = [
    ("100", "100"),
    ("105", "100"),
    ("95", "100"),
    ("100.0", "100"),
    ("100.", "100"),
    (" 100\n", "100"),
    (".5", "0.5"),
    ("-0.5", "-0.5"),
    ("−12", "-12"),
    ("1,234", "1234"),
    ("1234", "1,234"),
    ("1,234,567.8", "1234567.8"),
    ("1 234 567", "1234567"),
    ("12%", "12"),
    ("12 %", "12%"),
    ("12", "12%"),
    ("0.12", "12%"),
    ("12%", "0.12"),
    ("12 percent", "12%"),
    ("$5", "5"),
    ("-$5", "-5"),
    ("5 dollars", "$5"),
    ("5 years", "5"),
    ("5 year", "5 years"),
    ("3.5 million", "3.5"),
    ("3.5 million", "3500000"),
    ("3.5M", "3.5 million"),
    ("3.5 billion dollars", "3.5"),
    ("1e3", "1000"),
    ("0", "0"),
    ("0.0", "0"),
    ("0%", "0"),
    ("Germany", "germany"),
    ("Germany.", "Germany"),
    ("'United  States'", "united states"),
    ("2018", "2019"),  # to the official rule a year is a number like any other
]

WRONG = [
    ("106", "100"),
    ("94", "100"),
    ("-100", "100"),
    ("12,34", "1234"),
    ("1200%", "12%"),
    ("12%", "12 million"),
    ("3.5 billion", "3.5 million"),
    ("12 dogs", "12 cats"),
    ("$12", "€12"),
    ("0.01", "0"),
    ("1", "0"),
    ("zero", "0"),
    ("0", "100"),
    ("France", "Germany"),
    ("German", "Germany"),
    ("Germany and France", "Germany"),
    ("The value is 100", "100"),
    ("100 or 200", "100"),
    ("100, 200", "100"),
    ("between 90 and 100", "100"),
    ("I cannot tell", "100"),
    ("nan", "100"),
    ("inf", "100"),
    ("1e999", "100"),
    ("", "100"),
    (" ", "0"),
    (".", ""),
    ("", ""),
]


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("5 million dollars", _Quantity(5.0, 1e6, "$")),
        ("5 million", _Quantity(5.0, 1e6, "")),
        ("5 dogs", _Quantity(5.0, 1.0, "dog")),
        ("-5 euros", _Quantity(-5.0, 1.0, "€")),
        ("5 red dogs", None),
    ],
)
def test_a_quantity_has_a_scale_and_a_unit(text, read):
    assert _parse_quantity(text) == read


@pytest.mark.parametrize(("prediction", "answer"), RIGHT)
def test_right(prediction, answer):
    assert _lenient_accuracy(prediction, answer) == 1.0


@pytest.mark.parametrize(("prediction", "answer"), WRONG)
def test_wrong(prediction, answer):
    assert _lenient_accuracy(prediction, answer) == 0.0


def test_the_best_of_several_answers_counts():
    item = SimpleNamespace(references=("12", "dozen"), options={}, meta={})
    assert relaxed_lenient("dozen", item) == relaxed_lenient("12%", item) == 1.0
    assert relaxed_lenient("", item) == relaxed_lenient("13", item) == 0.0
    assert relaxed("dozen", item) == relaxed("12.5", item) == 1.0
    assert relaxed("", item) == relaxed("13", item) == relaxed("12%", item) == 0.0


OFFICIAL = [
    ("105", "100", 1.0),
    ("106", "100", 0.0),
    (" 14 ", "14", 1.0),
    ("14%", "14", 0.0),
    ("14%", "0.14", 1.0),
    ("14%", "14%", 1.0),
    ("14k", "14", 0.0),
    ("14 billion", "14", 0.0),
    ("$14", "14", 0.0),
    ("14 euros", "14", 0.0),
    ("1,040", "1000", 0.0),
    ("Germany", "germany", 1.0),
    ("Germany.", "Germany", 0.0),
    ("0", "0", 1.0),
    ("0.0", "0", 0.0),
    ("", "", 0.0),
    ("nan", "100", 0.0),
]


@pytest.mark.parametrize(("prediction", "answer", "score"), OFFICIAL)
def test_the_official_rule_reads_plain_numbers_only(prediction, answer, score):
    assert _relaxed_accuracy(prediction, answer) == score


@given(st.floats(0.01, 1e9), st.floats(0.5, 1.5))
def test_the_tolerance_is_five_percent_of_the_gold_answer(wanted, ratio):
    if abs(abs(ratio - 1) - 0.05) > 1e-6:
        right = _lenient_accuracy(f"{wanted * ratio:,.6f}", f"{wanted:.6f}")
        if wanted > 1:
            assert right == float(abs(ratio - 1) < 0.05)


@given(st.text(), st.text())
def test_any_text_scores_0_or_1(prediction, answer):
    assert _lenient_accuracy(prediction, answer) in (0.0, 1.0)


@given(st.text(alphabet="0123456789.,%-$ eEkM", max_size=12))
def test_a_non_empty_answer_is_right_for_itself(text):
    assert _lenient_accuracy(text, text) == float(bool(text.strip().strip("\"'`").removesuffix(".").strip()))
