import pytest

from vispco.core.errors import UnknownNameError
from vispco.data import metric


@pytest.mark.parametrize(
    ("task", "prediction", "answer", "score"),
    [
        ("attribute", "Red", "red", 1.0),
        ("attribute", " red. ", "red", 1.0),
        ("attribute", "red circle", "red", 0.0),
        ("attribute", "", "red", 0.0),
        ("position", "top  left", "top left", 1.0),
        ("position", "left top", "top left", 0.0),
        ("counting", "3", "3", 1.0),
        ("counting", "3.0", "3", 0.0),
        ("chart", "42", "42", 1.0),
        ("chart", "44", "42", 1.0),  # 4.8 % off
        ("chart", "45", "42", 0.0),  # 7.1 % off
        ("chart", "40", "42", 1.0),
        ("chart", "95", "100", 1.0),  # exactly 5 %
        ("chart", "42%", "42", 1.0),
        ("chart", "-42", "42", 0.0),
        ("chart", "forty", "42", 0.0),
        ("chart", "", "42", 0.0),
        ("chart", "nan", "42", 0.0),
        ("chart", "inf", "42", 0.0),
        ("table", "7", "8", 0.0),
    ],
)
def test_metric(task, prediction, answer, score):
    assert metric(task, prediction, answer) == score


def test_an_unknown_task_is_named_with_the_known_ones():
    with pytest.raises(UnknownNameError, match="counting"):
        metric("colors", "red", "red")
