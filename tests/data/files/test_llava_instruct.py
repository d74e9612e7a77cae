"""LLaVA-Instruct: every turn is an instruction with its own answer; what cannot be used is counted and listed."""

import json
import re

import pytest

from vispco.core.errors import InvalidInputError
from vispco.data.files import LlavaInstruct, Turn
from vispco.data.files.samples import decoded


def read(reader):
    return list(reader), reader.report


def test_each_turn_is_an_instruction_with_its_own_answer(instruct, talk):
    element = talk("<image>\nWhat is it?", "A cat.", "Which colour?", "Black.", id="7", image="a.png")
    (record,), report = read(LlavaInstruct(*instruct([element])))
    assert record.turns == (Turn("What is it?", "A cat.", (0,)), Turn("Which colour?", "Black."))
    assert (record.id, record.row, record.image().size) == ("7#1", 1, (8, 6))
    assert (report.used, report.count) == (1, 0)


def test_a_record_gives_one_sample_per_turn_with_what_was_said_before(instruct, talk):
    element = talk("<image>\nOne?", "1", "Two?", "2", id="7", image="a.png")
    ((record,), _) = read(LlavaInstruct(*instruct([element])))
    first, second = record.samples()
    assert (first.id, first.question, first.answer) == ("7#1/turn-0", "One?", "1")
    assert (second.question, second.answer, second.history) == ("Two?", "2", (("One?", "1"),))


@pytest.mark.parametrize(
    ("text", "instruction", "places"),
    [
        ("<image>\nWhat?", "What?", (0,)),
        ("What?\n<image>", "What?", (5,)),
        ("Look: <image> What?", "Look:  What?", (6,)),
        ("What?", "What?", (0,)),
        ("<image>", "", (0,)),
    ],
)
def test_the_place_of_the_image_is_kept(instruct, talk, text, instruction, places):
    ((record,), _) = read(LlavaInstruct(*instruct([talk(text, "x", image="a.png")])))
    assert (record.turns[0].instruction, record.turns[0].image_at) == (instruction, places)


def test_several_images_each_have_their_place(instruct, talk):
    element = talk("<image>\n<image>\nWhich?", "x", image=["a.png", "b.png"])
    ((record,), _) = read(LlavaInstruct(*instruct([element], images=("a.png", "b.png"))))
    assert len(record.images()) == 2
    assert record.turns[0] == Turn("Which?", "x", (0, 0))


def test_ids_that_repeat_are_kept_apart(instruct, talk):
    records, _ = read(LlavaInstruct(*instruct([talk("a", "b", id="7", image="a.png")] * 3)))
    assert [record.id for record in records] == ["7#1", "7#2", "7#3"]


def test_images_are_found_by_their_last_part_too(instruct, talk):
    ((record,), _) = read(LlavaInstruct(*instruct([talk("a", "b", image="coco/train2017/a.png")])))
    assert record.image().size == (8, 6)


def test_chat_messages_and_unanswered_ends_are_understood(instruct):
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What?"}]},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "And then?"},
    ]
    ((record,), _) = read(LlavaInstruct(*instruct([{"image": "a.png", "messages": messages}])))
    assert record.turns == (Turn("What?", "A cat.", (0,)),)


BAD = [
    ("no image", lambda talk: talk("a", "b"), "no image"),
    ("missing image", lambda talk: talk("a", "b", image="gone.png"), r"'gone\.png' is not in"),
    ("missing image", lambda talk: talk("a", "b", image="x\0y"), "is not in"),
    ("missing image", lambda talk: talk("a", "b", image="x" * 5000), "is not in"),
    ("broken image", lambda talk: talk("a", "b", image="text.png"), "is not an image"),
    ("malformed item", lambda talk: talk("a", "b", image=7), "int 7"),
    ("malformed item", lambda talk: 7, "int 7"),
    ("malformed conversation", lambda talk: {"image": "a.png"}, "missing"),
    ("malformed conversation", lambda talk: {"image": "a.png", "conversations": []}, "list of messages"),
    ("malformed conversation", lambda talk: {"image": "a.png", "conversations": ["x"]}, "'from' and 'value'"),
    ("malformed conversation", lambda talk: {"image": "a.png", "conversations": [{"value": "x"}]}, "no 'from'"),
    (
        "malformed conversation",
        lambda talk: {"image": "a.png", "conversations": [{"from": "gpt", "value": "x"}]},
        "alternate",
    ),
    ("malformed conversation", lambda talk: talk("a", image="a.png"), "no instruction in it has an answer"),
    ("malformed conversation", lambda talk: talk("a", " ", image="a.png"), "answer in message 2 is empty"),
    ("malformed conversation", lambda talk: talk("a", None, image="a.png"), "must be a string"),
    ("malformed conversation", lambda talk: talk("<image><image>", "b", image="a.png"), "2 <image> placeholders but 1"),
]


@pytest.mark.parametrize(("reason", "make", "sentence"), BAD)
def test_what_cannot_be_used_is_skipped_with_file_and_row(instruct, talk, reason, make, sentence):
    good = talk("a", "b", image="a.png")
    path, folder = instruct([good, make(talk), good])
    (folder / "text.png").write_text("not a picture")
    records, report = read(LlavaInstruct(path, folder))
    assert [record.row for record in records] == [1, 3]
    assert dict(report.reasons) == {reason: 1}
    assert report.listed[0].sentence.startswith(f"{path}, row 2: ")
    assert report.to_dict()["skipped"] == 1
    assert re.search(sentence, report.listed[0].sentence)


def test_a_picture_that_breaks_when_decoded_is_counted_then(instruct, talk, png):
    path, folder = instruct([talk("a", "b", image="a.png"), talk("a", "b", image="cut.png")])
    (folder / "cut.png").write_bytes(png[: len(png) // 2])
    reader = LlavaInstruct(path, folder)
    assert [record.row for record in reader if decoded(record, reader.report) is not None] == [1]
    assert reader.report.to_dict()["reasons"] == {"broken image": 1}
    assert (reader.report.used, reader.report.listed[0].row) == (1, 2)


def test_truncated_json_keeps_what_is_whole(instruct, talk):
    text = json.dumps([talk("a", "b", image="a.png")] * 3)
    for cut in range(len(text) - 100, len(text), 7):
        records, report = read(LlavaInstruct(*instruct(text[:cut])))
        assert len(records) >= 2
        assert dict(report.reasons) == {"truncated file": 1}
        assert "row" in report.listed[0].sentence


def test_a_malformed_element_costs_only_itself(instruct, talk):
    good = json.dumps(talk("a", "b", image="a.png"))
    for bad in (
        '{"id": 1,, "x": 2}',
        '{"id": [1}',
        "nope",
        "{'id': 1}",
        '{"a": tru}',
        "}",
        '"text"',
        "[" * 5000 + "]" * 5000,
    ):
        records, report = read(LlavaInstruct(*instruct(f"[{good},{bad},{good}]")))
        assert [record.row for record in records] == [1, 3], bad
        assert report.count == 1


def test_bytes_that_are_not_utf8_cost_only_their_element(instruct, talk):
    path, folder = instruct(
        [talk("a", "b", image="a.png"), talk("EEE", "b", image="a.png"), talk("é", "b", image="a.png")]
    )
    path.write_bytes(path.read_bytes().replace(b"EEE", b"caf\xe9"))
    records, report = read(LlavaInstruct(path, folder))
    assert [record.row for record in records] == [1, 3]
    assert dict(report.reasons) == {"not UTF-8": 1}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("", "is empty"),
        ("   ", "is empty"),
        ("{}", "JSON Lines"),
        ("[]", "holds no items"),
        ("[1, 2]", "nothing in it can be used; 2 of 2 items skipped: 2 malformed item"),
    ],
)
def test_a_file_of_no_use_says_so(instruct, text, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        list(LlavaInstruct(*instruct(text)))


def test_no_images_at_all_is_an_error_that_says_what_was_missing(instruct, talk):
    with pytest.raises(InvalidInputError, match=r"3 missing image.*'a\.png' is not in"):
        list(LlavaInstruct(*instruct([talk("a", "b", image="a.png")] * 3, images=())))


def test_paths_that_do_not_exist_are_refused_at_once(instruct, tmp_path):
    path, folder = instruct([])
    with pytest.raises(InvalidInputError, match=r"none\.json does not exist"):
        LlavaInstruct(tmp_path / "none.json", folder)
    with pytest.raises(InvalidInputError, match="image folder"):
        LlavaInstruct(path, tmp_path / "none")
