"""MME: words, not letters; and what does not say yes or no says neither."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vispco.metrics.metric import METRICS, _extract_yes_no

YES = [
    "Yes",
    "yes.",
    "YES!",
    "**Yes**",
    "Yes, there is no cat.",
    "yes - it is",
    "The answer is yes.",
    "Yes it is",
    "\nYes\n",
]
NO = [
    "No",
    "no.",
    "NO",
    "No, yes would be wrong.",
    "There is no dog.",
    "The answer is no",
    "(no)",
    "No it isn't",
    "'No'",
    "No. 2 dogs are in the image.",
    "No image of a cat here.",
    "There is no picture of a dog on the wall.",
    "ASSISTANT: No",
]
NEITHER = [
    "",
    " ",
    "I know",
    "know",
    "I know it.",
    "Nothing",
    "North",
    "eyes",
    "yesterday",
    "None",
    "not",
    "It is not a dog.",
    "I cannot tell",
    "I have no idea",
    "No idea.",
    "no clue",
    "yes and no",
    "Yes or no",
    "It could be yes, it could be no",
    "There is no way to tell",
    "No. 5",
    "It is house no. 5",
    "There is no image.",
    "No image is provided",
    "No picture was given, so I cannot say.",
    "maybe",
    "?",
]


@pytest.mark.parametrize("prediction", YES)
def test_yes(prediction):
    assert _extract_yes_no(prediction) == "yes"


@pytest.mark.parametrize("prediction", NO)
def test_no(prediction):
    assert _extract_yes_no(prediction) == "no"


@pytest.mark.parametrize("prediction", NEITHER)
def test_neither(prediction):
    assert _extract_yes_no(prediction) is None


@pytest.mark.parametrize("answer", ["Yes", "No"])
def test_the_score_is_that_of_one_question_in_0_to_1(answer):
    item = SimpleNamespace(references=(answer,), options={}, meta={})
    other = {"Yes": "No", "No": "Yes"}[answer]
    assert METRICS.get("yes-no")(answer.lower(), item) == 1.0
    assert (
        METRICS.get("yes-no")(other, item)
        == METRICS.get("yes-no")("", item)
        == METRICS.get("yes-no")("I know", item)
        == METRICS.get("yes-no")("I cannot tell", item)
        == 0.0
    )


@given(st.text())
def test_any_text_says_yes_no_or_neither(text):
    assert _extract_yes_no(text) in ("yes", "no", None)
