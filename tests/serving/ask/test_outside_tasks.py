"""A shipped model that is asked what it never learned says so, once."""

import pytest

from cli.invoking import Invoke
from vispco.data import dataset
from vispco.serving.ask.picture_question import outside_tasks


def test_questions_of_the_eight_tasks_are_known_and_others_are_not():
    for sample in dataset("test", "all", limit=40):
        assert outside_tasks("tiny-qwen", sample.question) is None
    assert outside_tasks("tiny-qwen", "How many  squares are there") is None
    for question in ("what is in the picture?", "how many cats are there?", "describe it"):
        assert "eight synthetic tasks" in outside_tasks("tiny-llava", question)
        assert outside_tasks("./own-model", question) is None


@pytest.mark.parametrize(("question", "times"), [("what is in the picture?", 1), ("how many circles are there?", 0)])
def test_ask_says_it_once(picture, tmp_path, monkeypatch, capsys, question, times):
    monkeypatch.chdir(tmp_path)
    invoke = Invoke(monkeypatch, capsys)
    done = invoke("ask", "tiny-llava", picture, question, "--rounds", "1")
    assert done.code == 0
    assert " ".join(done.err.split()).count("eight synthetic tasks") == times
