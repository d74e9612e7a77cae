"""Inputs stay inside the picture folder, within their limits, and are only words to the model."""

from __future__ import annotations

import base64
import json
import os
import threading
from dataclasses import replace

import pytest
import torch

from vispco.data import dataset
from vispco.data.files import Jsonl, LlavaInstruct, Tsv
from vispco.data.files.record import VARIABLE
from vispco.data.files.samples import training_samples
from vispco.evaluation.encoded import _special_tokens, encode, read
from vispco.models import names
from vispco.models.loading import load
from vispco.models.model_spec import LoadError
from vispco.pruner.pruner import Pruner

HIDDEN = "root:x:0:0:nobody should see this"


@pytest.fixture
def place(tmp_path):
    """A folder `data` with one good picture, and things outside of it."""
    inside = tmp_path / "data"
    inside.mkdir()
    picture = dataset("test", limit=1)[0].image
    picture.save(inside / "good.png")
    picture.save(tmp_path / "outside.png")
    (tmp_path / "secret.txt").write_text(HIDDEN)
    (inside / "link.png").symlink_to(tmp_path / "outside.png")
    (inside / "notes.txt").write_text(HIDDEN)
    os.mkfifo(inside / "pipe.png")
    return inside


def records(place, *rows):
    file = place / "rows.jsonl"
    asked = [{"image": "good.png", "question": "how many?", "answer": "one"}, *rows]
    file.write_text("".join(json.dumps(row) + "\n" for row in asked))
    found = Jsonl(file)
    return list(found), found.report


@pytest.mark.parametrize("name", ["../outside.png", "{absolute}", "link.png", "../secret.txt", "/etc/passwd"])
def test_a_picture_outside_of_the_folder_is_skipped_and_not_read(place, name):
    name = name.replace("{absolute}", str(place.parent / "outside.png"))
    used, report = records(place, {"image": name, "question": "what?", "answer": "x"})
    assert len(used) == 1
    assert report.count == 1
    assert HIDDEN[:8] not in report.listed[0].sentence
    assert "root:" not in report.listed[0].sentence


@pytest.mark.parametrize("name", ["../outside.png", "{absolute}", "link.png", "/etc/passwd"])
def test_tables_and_conversations_do_not_lead_outside_either(place, name):
    name = name.replace("{absolute}", str(place.parent / "outside.png"))
    (place / "rows.tsv").write_text(f"index\timage_path\tquestion\tanswer\n1\tgood.png\ta\tb\n2\t{name}\ta\tb\n")
    talk = [{"from": "human", "value": "<image> what?"}, {"from": "gpt", "value": "x"}]
    rows = [{"image": image, "conversations": talk} for image in ("good.png", name)]
    (place / "rows.json").write_text(json.dumps(rows))
    for found in (Tsv(place / "rows.tsv"), LlavaInstruct(place / "rows.json", images=place)):
        assert len(list(found)) == 1
        assert found.report.count == 1
        assert "root:" not in found.report.listed[0].sentence


def test_bad_rows_of_a_benchmark_are_skipped_and_counted_and_never_stop_it(place, invoke):
    """Special tokens of every kind, a text beyond any context, a picture elsewhere, a pipe: beside two good rows."""
    words = "<image> <|image_pad|> <start_of_image> <|im_end|> </s>"
    picture = base64.b64encode((place / "good.png").read_bytes()).decode()
    header = ("index", "image", "image_path", "question", "A", "B", "answer")
    rows = [
        ("1", picture, "", "which?", "red", "blue", "A"),
        ("2", picture, "", f"which {words}?", f"red {words}", "blue", "A"),
        ("3", picture, "", "how many " * 20_000, "red", "blue", "A"),
        ("4", "", "../outside.png", "which?", "red", "blue", "A"),
        ("5", "", "pipe.png", "which?", "red", "blue", "A"),
    ]
    table = place / "MMBench_DEV_EN.tsv"
    table.write_text("".join("\t".join(row) + "\n" for row in (header, *rows)))
    done = invoke("evaluate", "tiny-llava", "--tasks", f"mmbench={table}", "--json")
    assert done.code == 0, done.err
    (task,) = done.json["tasks"]
    assert (task["n"], task["skipped"]) == (2, 3)
    assert sum(done.json["skipped"]["mmbench"]["reasons"].values()) == 3


def test_pictures_outside_are_read_where_that_is_allowed(place, monkeypatch):
    monkeypatch.setenv(VARIABLE, '{"allow_outside": true}')
    used, report = records(place, {"image": "../outside.png", "question": "what?", "answer": "x"})
    assert (len(used), report.count) == (2, 0)


def test_no_message_has_the_content_of_a_file(place):
    _, report = records(place, {"image": "notes.txt", "question": "what?", "answer": "x"})
    assert "not an image" in report.listed[0].sentence
    assert HIDDEN[:8] not in report.listed[0].sentence


def test_a_named_pipe_is_refused_and_not_waited_for(place, tmp_path):
    os.mkfifo(tmp_path / "rows.jsonl")

    def read_both():
        _, report = records(place, {"image": "pipe.png", "question": "what?", "answer": "x"})
        told.append(report.listed[0].reason)
        try:
            Jsonl(tmp_path / "rows.jsonl")
        except ValueError as error:
            told.append(str(error))

    told: list[str] = []
    reader = threading.Thread(target=read_both, daemon=True)
    reader.start()
    reader.join(20)
    assert told[0] == "refused image"
    assert "not a regular file" in told[1]


@pytest.mark.parametrize(
    ("limits", "row", "reason"),
    [
        ({"max_text": 50}, {"question": "x" * 51}, "text too long"),
        ({"max_text": 50}, {"answer": "x" * 51}, "text too long"),
        ({"max_image_bytes": 10}, {}, "refused image"),
        ({"max_line": 200}, {"question": "x" * 201}, "malformed JSON"),
    ],
)
def test_what_exceeds_a_limit_is_skipped_and_counted(place, monkeypatch, limits, row, reason):
    file = place / "rows.jsonl"
    file.write_text(json.dumps({"image": "good.png", "question": "how?", "answer": "one", **row}) + "\n")
    monkeypatch.setenv(VARIABLE, json.dumps(limits))
    found = Jsonl(file)
    with pytest.raises(ValueError, match="nothing in it can be used"):
        list(found)
    assert list(found.report.reasons) == [reason]


def test_a_text_beyond_the_context_is_skipped_and_counted(place):
    model, processor = load("tiny-llava")
    length = model.config.get_text_config().max_position_embeddings
    records(place, {"image": "good.png", "question": "how many " * length, "answer": "one"})
    samples, facts = training_samples(place / "rows.jsonl", loaded=(model, processor))
    assert len(samples) == 1
    assert facts["skipped"]["reasons"] == {"beyond the context": 1}


@pytest.mark.parametrize("name", names())
def test_special_tokens_in_data_are_words_for_every_family(name):
    model, processor = load(name)
    sample = dataset("test", limit=1)[0]
    usual = read(model, processor, sample)
    ids = {processor.tokenizer.convert_tokens_to_ids(token) for token in _special_tokens(processor)}

    words = _special_tokens(processor)
    sample = replace(sample, question="how many " + " ".join(words), answer="one " + "".join(words))
    found = read(model, processor, sample)
    assert found.num_visual == usual.num_visual

    def specials(prompt):
        return torch.isin(prompt.tensors["input_ids"], torch.tensor(sorted(ids))).sum()

    assert specials(found) == specials(usual)
    assert torch.isin(found.answer[:-1], torch.tensor(sorted(ids))).sum() == 0
    with torch.no_grad():
        model(**encode(model, processor, [sample]).inputs)


def test_a_path_is_never_a_hub_id(tmp_path, monkeypatch, invoke):
    def network(*_, **__):
        raise AssertionError("the network was asked")

    monkeypatch.setattr("huggingface_hub.snapshot_download", network)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError, match="runs/one does not exist"):
        Pruner.from_pretrained("runs/one", budget=0.5)
    done = invoke("evaluate", "tiny-llava", "--pruner", "runs/one", "--budget", "0.5")
    assert done.code == 1
    assert "runs/one does not exist" in done.err
    (tmp_path / "runs").mkdir()
    with pytest.raises(LoadError, match="There is no model 'runs/one'"):
        load("runs/one")
