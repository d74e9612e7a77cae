"""What holds for every metric and every benchmark in the registries."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco.data.files import Record, Turn
from vispco.metrics import BENCHMARKS, METRICS

OPTIONS = {"A": "a red bus", "B": "two dogs", "C": "14"}
ITEMS = {  # by the kind of answer that a benchmark asks for
    "options": [("Which?", (letter,), OPTIONS) for letter in OPTIONS],
    "words": [("How many?", ("14",) * 10, {}), ("Which?", ("bus",) * 10, {}), ("How high?", ("14%", "13.5%"), {})],
    "yes-no": [("Is it?", ("Yes",), {}), ("Is it?", ("No",), {})],
    "text": [("What does it say?", ("No entry at night",), {}), ("Who?", ("J. Doe",) * 10, {})],
}
TEXT = st.text(max_size=30) | st.sampled_from(["Yes", "no.", "A", "(B)", "14", "1,400%", "two dogs", "nan", "inf"])


def record(question, references, options, **meta):
    return Record("1", "t", (), (Turn(question, references[0]),), references, options, meta=meta)


ALL = [(kind, record(*given)) for kind, given_items in ITEMS.items() for given in given_items]


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=40, deadline=None)
@given(TEXT)
def test_any_prediction_scores_between_0_and_1(name, prediction):
    for _, item in ALL:
        assert 0.0 <= METRICS.get(name)(prediction, item) <= 1.0


@pytest.mark.parametrize("name", METRICS)
def test_an_empty_prediction_scores_0_and_the_answer_itself_in_full(name):
    metric, known = METRICS.get(name), {entry.metric: entry.kind for entry in map(BENCHMARKS.get, BENCHMARKS)}
    for _, item in ALL:
        assert [metric(text, item) for text in ("", " ", "\n")] == [0.0, 0.0, 0.0]
    right = {kind: [metric(i.references[0], i) == 1.0 for k, i in ALL if k == kind] for kind in ITEMS}
    assert all(right[known[name]]) if name in known else any(map(any, right.values())), right


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_asks_its_question_and_scores_the_answer(name):
    entry = BENCHMARKS.get(name)
    score = METRICS.get(entry.metric)
    rows = [item for kind, item in ALL if kind == entry.kind]
    for row in rows:
        asked = entry.prompt(row)
        assert all(part in asked for part in (row.question, *row.options.values(), entry.ending))
        assert (score(row.references[0], row), score("", row)) == (1.0, 0.0)
    assert entry.max_new_tokens > 0
    assert entry.files
    if entry.group is not None:
        assert all(isinstance(entry.group(row), str) for row in rows)
    if entry.figures is not None:
        best, worst = (entry.figures([(row, score) for row in rows]) for score in (1.0, 0.0))
        assert best.keys() == worst.keys()
        assert all(best[figure] >= worst[figure] for figure in best)
        assert any(best[figure] > worst[figure] for figure in best)
