"""VQA accuracy on its official definition: ten annotators, leave one out, three agreeing are enough."""

from itertools import combinations
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vispco.metrics import METRICS
from vispco.metrics.vqa import CONTRACTIONS, _normalize, _vqa_accuracy


@pytest.mark.parametrize(
    ("answer", "normal"),
    [
        ("A dog", "dog"),
        ("the   Dog.", "dog"),
        ("An apple!", "apple"),
        ("two", "2"),
        ("Ten dogs", "10 dogs"),
        ("none", "0"),
        ("eleven", "eleven"),
        ("dont", "don't"),
        ("DONT", "don't"),
        ("couldnt've", "couldn't've"),
        ("its", "its"),
        ("well", "well"),
        ("1,000", "1000"),
        ("3.5", "3.5"),
        ("st. john", "st john"),
        ("coca-cola", "coca cola"),
        ("coca -cola", "coca cola"),
        ("yes, please", "yes please"),
        ("$5", "$5"),
        ("50%", "50%"),
        ("a\nb", "b"),
        ("A", "a"),
        ("the", "the"),
        ("?!", ""),
        ("", ""),
    ],
)
def test_normalisation_is_the_official_one(answer, normal):
    assert _normalize(answer) == normal


@pytest.mark.parametrize(
    ("matching", "accuracy"), [(0, 0.0), (1, 0.3), (2, 0.6), (3, 0.9), (4, 1.0), (5, 1.0), (10, 1.0)]
)
def test_agreement_with_k_of_ten_annotators(matching, accuracy):
    answers = ["red"] * matching + [f"other {number}" for number in range(10 - matching)]
    assert _vqa_accuracy("Red.", answers) == pytest.approx(accuracy)


def test_ten_annotators_who_disagree():
    answers = ["yes", "no", "unanswerable", "blue", "navy", "2", "two", "a dog", "dog", "Dog!"]
    assert _vqa_accuracy("2", answers) == pytest.approx(0.6)
    assert _vqa_accuracy("the dog", answers) == pytest.approx(0.9)
    assert _vqa_accuracy("green", answers) == 0.0


@pytest.mark.parametrize("prediction", ["", " ", "\n\t", "?", "..."])
def test_an_empty_prediction_scores_0_even_against_empty_answers(prediction):
    assert _vqa_accuracy(prediction, ["", "", "", "", "a", "the", "?", "!", ".", ""]) == 0.0


def test_cannot_tell_is_not_an_answer():
    assert _vqa_accuracy("I cannot tell", ["unanswerable"] * 10) == 0.0
    assert _vqa_accuracy("Unanswerable.", ["unanswerable"] * 10) == 1.0


def test_with_few_references_a_match_is_enough_and_with_none_nothing_is():
    assert _vqa_accuracy("cat", ["Cat"]) == 1.0
    assert _vqa_accuracy("cat", ["dog", "a cat"]) == 1.0
    assert _vqa_accuracy("cat", []) == 0.0


def test_the_metric_reads_the_item():
    assert METRICS.get("vqa")("cat", SimpleNamespace(references=("cat",) * 10, options={}, meta={})) == 1.0


def test_contractions_are_never_made_from_other_words():
    assert not {"hell", "well", "shell", "were", "ill", "its", "wed", "shed", "id"} & set(CONTRACTIONS)


@given(st.lists(st.sampled_from(["red", "blue", "2"]), min_size=10, max_size=10), st.sampled_from(["red", "two", "x"]))
def test_it_is_the_mean_over_all_subsets_of_nine(answers, prediction):
    wanted = {"two": "2"}.get(prediction, prediction)
    nines = list(combinations(answers, 9))
    naive = sum(min(nine.count(wanted) / 3, 1) for nine in nines) / len(nines)
    assert _vqa_accuracy(prediction, answers) == pytest.approx(naive)


@given(st.text(), st.lists(st.text(), max_size=10))
def test_any_text_scores_between_0_and_1(prediction, answers):
    assert 0.0 <= _vqa_accuracy(prediction, answers) <= 1.0
