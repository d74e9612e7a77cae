"""Bad files through the commands: a sentence with file and row, a run that goes on, and a count in the result."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from real.command import vispco
from real.files import base64_of, encoded, picture, save_small, write_instruct, write_table

NAMES = ["index", "image", "question", "hint", "A", "B", "answer"]
GOOD = base64_of(picture(1))


def row(index, image=GOOD, answer="A", question="what color is it?"):
    return [index, image, question, "", "white", "red", answer]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return save_small("tiny-qwen", tmp_path_factory.mktemp("model"))


@pytest.fixture
def ask(model):
    """Evaluate the model on a table, with one token for each answer."""

    def run(path, *more):
        return vispco("evaluate", model, "--tasks", f"mmbench={path}", "--max-new-tokens", 1, "--json", *more)

    return run


def rotated(size):
    image = Image.new("RGB", size)
    exif = image.getexif()
    exif[0x0112] = 6
    return base64_of(image, "JPEG", exif=exif)


ODD = {
    "1 × 1": base64_of(Image.new("RGB", (1, 1))),
    "10,000 × 10,000": base64_of(Image.new("1", (10_000, 10_000))),
    "CMYK": base64_of(Image.new("CMYK", (40, 30)), "JPEG"),
    "palette": base64_of(picture(2).convert("P")),
    "animated": base64_of(picture(3).convert("P"), "GIF", save_all=True, append_images=[picture(4).convert("P")]),
    "turned by EXIF": rotated((60, 20)),
}


def test_odd_pictures_are_asked_about_like_any_other(ask, tmp_path):
    table = write_table(tmp_path / "t.tsv", NAMES, [row(name, image) for name, image in ODD.items()])
    done = ask(table)
    assert done.code == 0, done.err
    data = json.loads(done.out)
    assert data["tasks"][0]["n"] == len(ODD)
    assert data["skipped"]["mmbench"]["skipped"] == 0


def test_what_cannot_be_used_is_counted_and_listed_with_file_and_row(ask, tmp_path):
    data = encoded(picture(5), "JPEG")
    import base64

    cut = base64.b64encode(data[: len(data) // 2]).decode()
    rows = [
        row("1"),
        row("2", image=GOOD[:-7] + "!!!!"),
        row("3", image=cut),
        row("4", answer=""),
        row("1"),
        row("5", image=base64_of(Image.new("RGB", (1, 400)))),
        row("6", image=""),
        row("7", question="an é that is not UTF-8"),
    ]
    table = write_table(tmp_path / "MMBench.tsv", NAMES, rows)
    spoilt = table.read_bytes().replace("é".encode(), b"\xe9")
    table.write_bytes(spoilt + b"8\tiVBOR")  # and the end is cut off
    done = ask(table, "--out", tmp_path / "result.json")
    assert done.code == 0, done.err
    result = json.loads((tmp_path / "result.json").read_text())
    assert (result["tasks"][0]["n"], result["tasks"][0]["skipped"]) == (1, 8)
    report = result["skipped"]["mmbench"]
    assert report["reasons"] == {
        "broken base64": 1,
        "broken image": 1,
        "no answer": 1,
        "duplicate id": 1,
        "unusable shape": 1,
        "no image": 1,
        "not utf-8": 1,
        "malformed row": 1,
    }
    assert sorted(entry["row"] for entry in report["listed"]) == [2, 3, 4, 5, 6, 7, 8, 9]
    assert all(entry["file"] == str(table) for entry in report["listed"])


def test_a_person_is_told_what_was_skipped(model, tmp_path):
    table = write_table(tmp_path / "t.tsv", NAMES, [row("1"), row("2", image=GOOD[:-7] + "!!!!")])
    done = vispco("evaluate", model, "--tasks", f"mmbench={table}", "--max-new-tokens", 1)
    assert done.code == 0
    assert "1 of 2 items skipped: 1 broken base64" in done.err
    assert f"{table}, row 2" in done.err


def test_the_same_in_a_sweep(model, tmp_path):
    table = write_table(tmp_path / "t.tsv", NAMES, [row("1"), row("2", image=GOOD[:-7] + "!!!!")])
    options = ("--tasks", f"mmbench={table}", "--strategy", "random", "--trials", 1, "--workers", 0)
    done = vispco("sweep", model, *options, "--max-new-tokens", 1, "--out", tmp_path / "sweep", "--json")
    assert done.code == 0, done.err
    found = json.loads(done.out)["points"][0]["evaluation"]
    assert found["tasks"][0]["skipped"] == 1
    assert found["details"]["skipped"]["mmbench"]["listed"][0]["row"] == 2
    again = vispco("sweep", model, *options, "--max-new-tokens", 1, "--out", tmp_path / "sweep")
    assert "mmbench: 1 of 2 items skipped: 1 broken base64" in again.err


@pytest.mark.parametrize(
    ("names", "rows", "sentence"),
    [
        (["index", "image", "question"], [["1", GOOD, "what?"]], "has no answer column"),
        (["index", "question", "answer"], [["1", "what?", "A"]], "has no images"),
        (NAMES, [], "holds no items"),
        (NAMES, [row("1", image="")], "nothing in it can be used"),
        (NAMES, [row("1", image=base64_of(Image.new("RGB", (1, 400))))], "cannot be read by the model's processor"),
    ],
)
def test_a_table_without_anything_to_ask_ends_in_a_sentence(ask, names, rows, sentence, tmp_path):
    table = write_table(tmp_path / "t.tsv", names, rows)
    done = ask(table)
    assert done.code == 1
    assert sentence in done.err
    assert str(table) in done.err


def search(model, data, out, *more):
    cheap = ("--set", "descent.outer=1", "--set", "descent.explore=2", "--examples", 0, "--test", 1)
    asked = ("--tasks", "attribute", "--budgets", 0.8, "--max-new-tokens", 1)
    return vispco("search", model, "--data", data, "--out", out, *cheap, *asked, *more)


def test_a_search_goes_on_without_what_is_broken(model, tmp_path):
    path = write_instruct(tmp_path, 4, broken=(1,))
    (tmp_path / "train2017" / "000000000002.jpg").unlink()
    whole = path.read_text()
    path.write_text(whole[:-1] + ', {"id": "cut", "image": "0000')
    done = search(model, path, tmp_path / "run", "--images", tmp_path / "train2017")
    assert done.code == 0, done.err
    assert f"{path}, row" in done.err
    told = json.loads((tmp_path / "run" / "config.json").read_text())["data"]
    assert told["skipped"]["skipped"] == 3
    assert (told["conversations"], told["samples"]) == (2, 4)  # each of them has two turns


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[", "nothing in it can be used"),
        ("{}", "list"),
        (
            '[{"id": 1, "conversations": [{"from": "human", "value": "hi"}, {"from": "gpt", "value": "ho"}]}]',
            "no image",
        ),
    ],
)
def test_conversations_that_cannot_be_learned_from_end_in_a_sentence(model, text, sentence, tmp_path):
    path = tmp_path / "talk.json"
    path.write_text(text)
    done = search(model, path, tmp_path / "run")
    assert done.code == 1
    assert sentence in done.err
    assert str(path) in done.err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (("evaluate", "--tasks", "mmbench"), "Write mmbench=PATH, or give --data-root"),
        (("evaluate", "--tasks", "mmbench=none.tsv"), "'none.tsv' does not exist"),
        (("evaluate", "--data-root", "nowhere"), "is not a folder"),
        (("evaluate", "--device", "abacus"), "Give auto, cpu, cuda"),
        (("evaluate", "--dtype", "int8"), "dtype='int8' was given"),
        (("evaluate", "--pruner", "runs/none"), "without --budget"),
        (("evaluate", "--budget", "0.5"), "--budget goes with --pruner"),
        (("evaluate", "--pruner", "x", "--budget", "0.5", "--schedule", "single:1:0.5"), "Keep one of them"),
        (("search", "--data", "none.json"), "none.json does not exist"),
        (("search", "--images", "pictures"), "Give --data, too"),
        (("search", "--preset", "best"), "Known presets"),
        (("search", "--set", "lamda=3"), "Known settings"),
        (("search", "--set", "rate"), "Write NAME=VALUE"),
        (("search", "--set", "rate=fast"), "give such a value"),
        (("search", "--set", "engine.power=3"), "Unknown setting"),
        (("search", "--set", "batch_size=0"), "1 or more"),
        (("info", "--image-size", "large"), "Write WIDTHxHEIGHT"),
        (("info", "--image-size", "1x4000"), "200 times"),
    ],
)
def test_options_that_cannot_work_are_told_in_a_sentence(model, options, sentence, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = vispco(options[0], model, *options[1:])
    assert done.code == 1
    assert sentence in done.err
