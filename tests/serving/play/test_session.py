import pytest

from vispco.core.errors import InvalidInputError
from vispco.serving.play.session import PLAIN


def test_another_budget_keeps_the_unpruned_answer_and_changes_the_rest(session, picture):
    first = session.ask(picture, "how many?", 0.6, PLAIN, None)
    second = session.ask(picture, "how many?", 0.3, PLAIN, first)
    assert second.comparison.unpruned is first.comparison.unpruned
    assert second.comparison.pruned.fraction <= 0.3 < first.comparison.pruned.fraction <= 0.6
    other = session.ask(picture, "what color?", 0.3, PLAIN, second)
    assert other.comparison.unpruned is not first.comparison.unpruned


def test_each_layer_has_its_picture_and_its_number(session, picture):
    asked = session.ask(picture, "how many?", 0.5, "sparsevlm", None)
    counts = asked.comparison.pruned.visual_tokens
    for layer, count in enumerate(counts):
        shown, told = session.survivors(asked, layer)
        assert told.startswith(f"Layer {layer}: {count} of ")
        assert max(shown.size) == 640
    assert session.survivors(None, 3) == (None, "")


def test_without_a_picture_it_says_what_to_do(session):
    with pytest.raises(InvalidInputError, match="Drop one"):
        session.ask(None, "how many?", 0.5, PLAIN, None)
