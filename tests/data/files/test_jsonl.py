"""Plain JSON Lines: a question and its answer, or a conversation, on each line."""

import json

import pytest

from vispco.core.errors import InvalidInputError
from vispco.data.files import Jsonl, Turn


@pytest.fixture
def lines(tmp_path, png):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(png)

    def write(*elements):
        path = tmp_path / "data.jsonl"
        texts = [element if isinstance(element, str) else json.dumps(element) for element in elements]
        path.write_text("\n".join(texts), encoding="utf-8")
        return Jsonl(path)

    return write


GOOD = {"image": "a.png", "question": "What?", "answer": "A cat."}


def test_a_line_is_a_question_with_its_answer(lines):
    reader = lines({**GOOD, "id": 7, "task": "animals", "split": "x"}, "", {**GOOD, "answer": ["cat", 2, ""]})
    first, second = reader
    assert (first.id, first.task, first.meta) == ("7#1", "animals", {"split": "x"})
    assert (first.turns, first.references) == ((Turn("What?", "A cat.", (0,)),), ("A cat.",))
    assert (second.id, second.task, second.references) == ("data/2", "instruct", ("cat", "2"))
    assert first.image().size == (8, 6)


def test_a_line_may_hold_a_conversation_or_options(lines, talk):
    first, second = lines(talk("a", "b", "c", "d", image="a.png"), {**GOOD, "options": ["dog", "cat"]})
    assert [turn.answer for turn in first.turns] == ["b", "d"]
    assert second.options == {"A": "dog", "B": "cat"}


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ('{"image": ', "malformed JSON"),
        ("[" * 100_000, "malformed JSON"),
        ("1" * 10_000, "malformed JSON"),
        ("7", "malformed item"),
        ("{}", "no image"),
        ({**GOOD, "question": None}, "no question"),
        ({**GOOD, "answer": None}, "no answer"),
        ({**GOOD, "image": "gone.png"}, "missing image"),
        ({**GOOD, "question": "<image><image>"}, "malformed conversation"),
        ('{"image": "a.png", "question": "\\ud800", "answer": "x"}', "not UTF-8"),
    ],
)
def test_a_bad_line_is_skipped(lines, bad, reason):
    reader = lines(GOOD, bad, GOOD)
    assert [record.row for record in reader] == [1, 3]
    assert dict(reader.report.reasons) == {reason: 1}
    assert f"{reader.file}, row 2: " in reader.report.listed[0].sentence


def test_a_line_that_is_not_utf8_is_skipped(lines):
    reader = lines(GOOD, {**GOOD, "question": "MARK"})
    reader.file.write_bytes(reader.file.read_bytes().replace(b"MARK", b"caf\xe9"))
    assert len(list(reader)) == 1
    assert dict(reader.report.reasons) == {"not UTF-8": 1}


def test_a_line_that_is_too_long_is_skipped_without_being_read_whole(lines, monkeypatch):
    monkeypatch.setenv("VISPCO_INPUT_LIMITS", '{"max_line": 200}')
    reader = lines(GOOD, {**GOOD, "question": "x" * 1000}, GOOD)
    assert [record.row for record in reader] == [1, 3]


def test_an_empty_file_says_so(lines):
    with pytest.raises(InvalidInputError, match="holds no items"):
        list(lines())
