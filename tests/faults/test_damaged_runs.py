"""A damaged file of a run, finished or not, is refused by its name or changes no number."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
import torch

from faults.conftest import LINE, SMALL, contents
from search.random_batches import zoo_model
from search.test_run import SMALL as EFFORT
from sweep.synthetic import LAYERS, Factory, run_sweep
from vispco import report
from vispco.core.errors import InvalidInputError, VispcoError
from vispco.core.runs import files
from vispco.core.runs.checkpoint_file import load_checkpoint, save_checkpoint
from vispco.core.runs.checksums import decode_line, encode_line, is_whole, sealed
from vispco.core.runs.files import DamagedFileError
from vispco.core.runs.run_folder import RunFolder
from vispco.core.runs.run_record import RECORD, RunFolderError, check_files, read_record
from vispco.data import dataset
from vispco.pruner.planner_kinds import load_predictor
from vispco.pruner.pruner import Pruner
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.report.run_files import read
from vispco.search.run_search import search

SEARCH = ("search", "tiny-llava", *SMALL, *LINE)


def read_all(folder):
    """What readers of a search's folder give."""
    page = report.build([folder]).to_dict()
    page.pop("created", None)
    return json.dumps([page, PrunerSpec.load(folder).static(0.5).to_dict()], sort_keys=True, default=str)


def flipped(content, place, bit=0):
    return content[:place] + bytes([content[place] ^ 1 << bit]) + content[place + 1 :]


def damages(content, draw):
    for _ in range(5):
        yield flipped(content, draw.randrange(len(content)), draw.randrange(8))
    yield content[: draw.randrange(len(content))]
    yield b""
    yield b"{}"


def test_no_damage_of_any_file_of_a_run_gives_another_number(run):
    true, draw = read_all(run), random.Random(0)
    names = sorted(contents(run))
    assert {RECORD, "config.json", "shapes.json", "frontier.json", "unpruned.json", "metrics.jsonl"} <= set(names)
    for name in names:
        content = (run / name).read_bytes()
        for changed in damages(content, draw):
            (run / name).write_bytes(changed)
            try:
                found = read_all(run)
            except VispcoError as error:
                assert name in str(error)  # noqa: PT017 - it may also be read
            else:
                assert found == true, name
        (run / name).write_bytes(content)
    assert read_all(run) == true


def test_a_seal_is_of_what_is_said_whatever_its_order():
    written = sealed({"b": (1, 2), "a": {"d": None, "c": 1.5}})
    other = {**written, "a": {"c": 1.5, "d": None}, "b": [1, 2]}
    assert is_whole(written)
    assert is_whole(dict(reversed(other.items())))
    assert not is_whole({**written, "a": {"d": None, "c": 1.25}})


def test_no_flipped_bit_of_a_sealed_file_is_read_as_something_else(tmp_path):
    data = {"rows": [{"accuracy": 0.5, "name": "vtw"}], "budget": 0.25, "checked": True, "none": None}
    file = files.write_json(tmp_path / "sealed.json", data, seal=True)
    content = file.read_bytes()
    for place in range(len(content)):
        for bit in (0, 1, 4, 7):
            file.write_bytes(flipped(content, place, bit))
            try:
                found = files.read_json(file)
            except DamagedFileError as error:
                assert "sealed.json" in str(error)  # noqa: PT017
            else:
                assert {key: value for key, value in found.items() if key in data} == data


def test_no_flipped_bit_of_a_checkpoint_is_read_as_other_weights(tmp_path):
    tensors = {"a": torch.arange(6, dtype=torch.float32).view(2, 3), "b": torch.tensor([True, False])}
    file = save_checkpoint(tmp_path / "checkpoint.safetensors", tensors, {"step": 3, "history": [{"kl": 0.5}]})
    content = file.read_bytes()
    for place in range(len(content)):
        file.write_bytes(flipped(content, place, place % 8))
        try:
            found, state = load_checkpoint(file)
        except DamagedFileError as error:
            assert "checkpoint.safetensors" in str(error)  # noqa: PT017
        else:
            assert state == {"step": 3, "history": [{"kl": 0.5}]}
            assert found.keys() == tensors.keys()
            assert all(torch.equal(found[name], tensors[name]) for name in tensors)
    file.write_bytes(content)
    assert load_checkpoint(file)[1]["step"] == 3


@pytest.mark.parametrize("finished", [True, False])
def test_a_run_does_not_go_on_from_a_damaged_file(tmp_path, finished):
    """Of a run that was stopped, what it had completed used to be taken as it was found."""
    settings = {"scorer": "fastv"}
    folder = RunFolder(tmp_path / "a")
    with folder.claim("demo", settings):
        folder.write_json("frontier.json", {"accuracy": 0.5})
        folder.seal("frontier.json")
        if finished:
            folder.finish()
    (tmp_path / "a" / "frontier.json").write_text('{"accuracy": 0.9}')
    before = contents(tmp_path)
    with pytest.raises(DamagedFileError, match=r"frontier\.json is damaged.*move it away.*--overwrite"):
        RunFolder(tmp_path / "a").claim("demo", settings).__enter__()
    with pytest.raises(RunFolderError, match=r"frontier\.json was changed"):
        RunFolder(tmp_path / "a", overwrite=True).claim("demo", settings).__enter__()
    assert contents(tmp_path) == before
    (tmp_path / "a" / "frontier.json").rename(tmp_path / "away.json")
    first = read_record(tmp_path / "a").id
    with RunFolder(tmp_path / "a", overwrite=True).claim("demo", settings) as again:
        assert again.record.id != first
    assert (tmp_path / "away.json").is_file()


def test_a_part_of_a_larger_run_is_sealed_when_it_is_complete(tmp_path):
    with RunFolder(tmp_path / "a").held() as folder:
        with folder.claim("demo", {}):
            folder.write_json("frontier.json", {})
            folder.until_finish("journal.jsonl").write_text("")
            folder.finish()
        record = read_record(tmp_path / "a")
        assert not record.finished
        assert record.files["frontier.json"] is not None
        assert record.files["journal.jsonl"] is None
        folder.write_json("frontier.json", {"again": True})
        assert read_record(tmp_path / "a").files["frontier.json"] is None
        folder.finish()
    assert check_files(tmp_path / "a").finished


def test_what_an_unfinished_run_needs_is_removed_after_it_is_finished(tmp_path, monkeypatch):
    """A kill between the two used to cost the whole search."""
    seen = []
    monkeypatch.setattr(RunFolder, "remove", lambda self, name: seen.append((name, read_record(self.path).finished)))
    with RunFolder(tmp_path / "a").claim("search", {}) as folder:
        folder.until_finish("journal.jsonl").write_text("")
        folder.finish()
    assert seen == [("journal.jsonl", True)]


def test_a_finished_search_gives_its_result_and_is_replaced_on_request(invoke, run, monkeypatch):
    before = json.loads((run / "frontier.json").read_text())
    with monkeypatch.context() as patch:
        patch.setattr("vispco.search.run_search.run_mode", None)  # nothing is searched
        done = invoke(*SEARCH, "--out", run, "--json")
        assert done.code == 0, done.err
        assert done.json["points"] == before["points"]
        replace(read_record(run), finished=False).write(run)  # killed while it wrote examples
        assert invoke(*SEARCH, "--out", run, "--json").code == 0
    assert check_files(run).finished
    first = read_record(run).id
    assert invoke(*SEARCH, "--out", run, "--json", "--overwrite").code == 0
    assert check_files(run).id != first
    assert [p["retention"] for p in map(_schedule, json.loads((run / "frontier.json").read_text())["points"])] == [
        p["retention"] for p in map(_schedule, before["points"])
    ]


def _schedule(point):
    return point["schedule"]


@pytest.fixture
def swept(tmp_path):
    run_sweep(
        Factory(str(tmp_path / "log")),
        name="study",
        space="single",
        strategy="random",
        num_layers=LAYERS,
        directory=tmp_path / "sweep",
        trials=2,
        workers=0,
        fingerprint={"model": "tiny", "scorer": {"name": "fastv"}},
    )
    return tmp_path / "sweep"


def test_a_journal_that_does_not_say_what_was_swept_is_refused_by_name(swept):
    """A changed digit of a setting used to be shown on the page."""
    told = read(swept).studies
    assert told["study"]["model"] == "tiny"
    journal = swept / "journal.log"
    lines = journal.read_bytes().splitlines(keepends=True)
    (known,) = [number for number, line in enumerate(lines) if b'"vispco"' in line]
    changed = b"".join([*lines[:known], lines[known].replace(b"tiny", b"tinz"), *lines[known + 1 :]])
    for content in (b"", b"".join(lines[:known]), changed, b"not a journal\n"):
        journal.write_bytes(content)
        with pytest.raises(DamagedFileError, match=r"journal\.log is damaged: it does not say what the sweep study"):
            read(swept)


def test_a_sweep_with_another_seed_does_not_go_on_with_the_first(swept, tmp_path):
    """The seed of the samples hid that of the sweep, and the results of the other one were given."""
    asked = {"name": "seeds", "space": "single", "strategy": "random", "num_layers": LAYERS, "trials": 2}
    factory = Factory(str(tmp_path / "log"))
    run_sweep(factory, directory=swept, workers=0, fingerprint={"seed": 0}, seed=0, **asked)
    with pytest.raises(InvalidInputError, match="is another sweep: it has seed=0; this one has seed=1"):
        run_sweep(factory, directory=swept, workers=0, fingerprint={"seed": 0}, seed=1, **asked)


def test_lines_of_a_journal_know_their_content():
    line = encode_line({"name": "a", "result": [0.125]})
    assert decode_line(line) == {"name": "a", "result": [0.125], "crc32": json.loads(line)["crc32"]}
    assert decode_line(line.replace(b"0.125", b"0.126")) is None
    assert decode_line(b"[" * 100_000) is None


@pytest.mark.parametrize("name", ["model.safetensors", "config.json"])
def test_the_files_of_a_saved_pruner_belong_together(learned, tmp_path, name):
    """A pruner with a predictor is two folders of files: a mixture, or a flipped bit of the weights, was deployed."""
    pruner = Pruner.from_pretrained(learned, budget=0.5)
    place = pruner.save_pretrained(tmp_path / "pruner")
    first, again = (load_predictor(PrunerSpec.load(each)).state_dict() for each in (learned, place))
    assert first.keys() == again.keys()
    assert all(torch.equal(first[name], again[name]) for name in first), "budgets and memory used to be lost"
    file = place / "predictor" / name
    content = file.read_bytes()
    for changed in (flipped(content, len(content) - 3), content[:-9], b"", None):
        file.unlink() if changed is None else file.write_bytes(changed)
        with pytest.raises(DamagedFileError, match=name):
            Pruner.from_pretrained(place)
    config = json.loads((place / "pruner.json").read_text())
    for elsewhere in ("../one/predictor", str(learned / "predictor"), "missing"):
        (place / "pruner.json").write_text(
            json.dumps({**config, "planner": {**config["planner"], "folder": elsewhere}})
        )
        with pytest.raises(DamagedFileError, match="is not in"):
            Pruner.from_pretrained(place)


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """The folder of a search for a predictor."""
    model, processor = zoo_model()
    folder = tmp_path_factory.mktemp("learned") / "one"
    search(
        model,
        processor,
        dataset("calibration", limit=1)[:2],
        mode="predictor",
        budgets=[0.5],
        directory=folder,
        effort=EFFORT,
    )
    return folder


def test_one_file_of_a_run_given_by_itself_is_checked_too(invoke, run):
    assert invoke("export", run, "--budget", "0.4").code == 0
    for name, reader in (
        ("pruner-0.4.json", Pruner.from_pretrained),
        ("frontier.json", lambda path: report.build([path])),
    ):
        reader(run / name)
        content = (run / name).read_bytes()
        (run / name).write_bytes(content.replace(b"0.", b"0.0", 1))
        with pytest.raises(DamagedFileError, match=name):
            reader(run / name)
