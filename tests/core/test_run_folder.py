"""A folder belongs to one run, and nothing that the run did not write is ever touched."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors import SafetensorError

from vispco.core.errors import InvalidInputError
from vispco.core.runs import files
from vispco.core.runs.run_folder import RunFolder
from vispco.core.runs.run_record import (
    LOCK,
    RECORD,
    RunFolderError,
    check_files,
    read_record,
    record_output,
)

SETTINGS = {"scorer": "fastv", "budgets": (0.2, 0.5)}
OTHER = {"scorer": "random", "budgets": (0.2, 0.5)}


def run(path, settings=SETTINGS, *, kind="search", text="result", finish=True, overwrite=False, **options):
    folder = RunFolder(path, overwrite=overwrite)
    with folder.claim(kind, settings, **options):
        folder.write_text("result.txt", text)
        folder.write_json("training/state.json", {"step": 1})
        if finish:
            folder.finish()
    return folder


def contents(path: Path) -> dict[str, str]:
    return {str(each.relative_to(path)): each.read_text() for each in sorted(path.rglob("*")) if each.is_file()}


def test_a_run_leaves_its_files_and_a_record_of_them(tmp_path):
    run(tmp_path / "a")
    assert sorted(contents(tmp_path / "a")) == ["result.txt", RECORD, "training/state.json"]
    record = check_files(tmp_path / "a")
    assert record.finished
    assert record.kind == "search"
    assert record.settings == {"scorer": "fastv", "budgets": [0.2, 0.5]}
    assert record.files == files.digest_files(tmp_path / "a", ["result.txt", "training/state.json"])


def test_the_same_settings_continue_and_others_are_refused_before_anything_is_written(tmp_path):
    run(tmp_path / "a", finish=False)
    first = read_record(tmp_path / "a")
    run(tmp_path / "a", text="again")
    assert read_record(tmp_path / "a").id == first.id
    before = contents(tmp_path / "a")
    with pytest.raises(RunFolderError) as refused:
        run(tmp_path / "a", OTHER, text="other")
    assert f"search {first.id}" in str(refused.value)
    assert "scorer: fastv there, random here" in str(refused.value)
    assert "--overwrite" in str(refused.value)
    assert contents(tmp_path / "a") == before


@pytest.mark.parametrize("finish", [True, False])
def test_another_model_is_another_run(tmp_path, finish):
    run(tmp_path / "a", model={"class": "Qwen", "weights": "1"}, finish=finish)
    with pytest.raises(RunFolderError, match="model: "):
        run(tmp_path / "a", model={"class": "Qwen", "weights": "2"})


def test_overwrite_replaces_our_own_files_and_no_others(tmp_path):
    folder = tmp_path / "a"
    run(folder)
    (folder / "notes.txt").write_text("mine")
    (folder / "training" / "notes.txt").write_text("mine")
    files.write_text(folder / "report.html", "page")
    record_output(folder / "report.html")
    other = RunFolder(folder, overwrite=True)
    with other.claim("search", OTHER):
        assert sorted(contents(folder)) == ["notes.txt", RECORD, LOCK, "training/notes.txt"]
        other.write_text("new.txt", "new")
        other.finish()
    assert sorted(contents(folder)) == ["new.txt", "notes.txt", RECORD, "training/notes.txt"]
    assert read_record(folder).settings["scorer"] == "random"


def test_overwrite_keeps_a_file_that_was_changed_by_hand(tmp_path):
    run(tmp_path / "a")
    (tmp_path / "a" / "result.txt").write_text("annotated")
    before = contents(tmp_path / "a")
    with pytest.raises(RunFolderError, match=r"result\.txt was changed after the run had written it"):
        run(tmp_path / "a", OTHER, overwrite=True)
    assert contents(tmp_path / "a") == before


def test_overwrite_does_not_replace_a_run_of_another_kind(tmp_path):
    run(tmp_path / "a", kind="zoo train")
    before = contents(tmp_path / "a")
    with pytest.raises(RunFolderError, match=r"holds another run .zoo train .* a search cannot go there"):
        run(tmp_path / "a", overwrite=True)
    assert contents(tmp_path / "a") == before


@pytest.mark.parametrize("overwrite", [True, False])
def test_a_folder_with_foreign_files_is_refused_by_name(tmp_path, overwrite):
    (tmp_path / "model").mkdir()
    for name in ("config.json", "model.safetensors"):
        (tmp_path / "model" / name).write_text("{}")
    before = contents(tmp_path)
    with pytest.raises(RunFolderError, match=r"config\.json, model\.safetensors.*Give a new folder"):
        run(tmp_path / "model", overwrite=overwrite)
    (tmp_path / "link").symlink_to("model")
    with pytest.raises(RunFolderError, match=r"config\.json"):
        run(tmp_path / "link", overwrite=overwrite)
    assert contents(tmp_path / "model") == {name.removeprefix("model/"): text for name, text in before.items()}


def test_a_foreign_file_in_a_folder_of_ours_is_not_replaced(tmp_path):
    run(tmp_path / "a")
    (tmp_path / "a" / "config.json").write_text("mine")
    folder = RunFolder(tmp_path / "a")
    with folder.claim("search", SETTINGS), pytest.raises(RunFolderError, match=r"config\.json was not written by this"):
        folder.write_json("config.json", {})
    assert (tmp_path / "a" / "config.json").read_text() == "mine"


@pytest.mark.parametrize("place", [".", "..", "../..", "", " ", "here", "/"])
def test_the_current_folder_and_those_above_are_refused(tmp_path, monkeypatch, place):
    here = tmp_path / "b" / "c"
    here.mkdir(parents=True)
    monkeypatch.chdir(here)
    with pytest.raises(RunFolderError, match="Give"):
        run(str(here) if place == "here" else place, overwrite=True)
    assert contents(tmp_path) == {}


def test_a_file_is_not_a_folder(tmp_path):
    (tmp_path / "a").write_text("")
    with pytest.raises(RunFolderError, match="is a file"):
        run(tmp_path / "a")


def test_names_cannot_lead_out_of_the_folder(tmp_path):
    outside = tmp_path / "outside.txt"
    outside.write_text("mine")
    folder = RunFolder(tmp_path / "a")
    with folder.claim("search", SETTINGS):
        folder.write_text("one.txt", "")
        (tmp_path / "a" / "link").symlink_to("..")
        for name in ("../outside.txt", str(outside), "link/outside.txt", RECORD, LOCK, ""):
            with pytest.raises(RunFolderError):
                folder.file(name)
    record = json.loads((tmp_path / "a" / RECORD).read_text())
    files.write_json(tmp_path / "a" / RECORD, {**record, "files": {"../outside.txt": None}}, seal=True)
    with pytest.raises(RunFolderError, match=r"outside\.txt"):
        run(tmp_path / "a", OTHER, overwrite=True)
    assert outside.read_text() == "mine"


def test_two_runs_at_once_are_refused_with_the_owner_named(tmp_path):
    first, second = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "a", overwrite=True)
    with first.claim("search", SETTINGS):
        for settings in (SETTINGS, OTHER):
            with (
                pytest.raises(RunFolderError, match=f"in use by process {os.getpid()} on "),
                second.claim("search", settings),
            ):
                pass
        first.write_text("result.txt", "")
    assert not (tmp_path / "a" / LOCK).exists()
    with second.claim("search", SETTINGS):
        pass


def test_a_dead_owner_loses_the_folder_and_its_temporary_files(tmp_path):
    code = """
import os, sys
from vispco.core.runs import files
from vispco.core.runs.run_folder import RunFolder
folder = RunFolder(sys.argv[1])
with folder.claim("search", {"scorer": "fastv"}):
    folder.write_text("result.txt", "half")
    with folder.staging("predictor") as staging, files.replacing(folder.file("training/state")) as temporary:
        (staging / "weights").write_text("half")
        temporary.write_text("half")
        os._exit(9)
"""
    place = tmp_path / "a"
    subprocess.run([sys.executable, "-c", code, str(place)], check=False)
    assert (place / LOCK).exists()
    assert len(list(place.rglob("*.tmp"))) == 2
    folder = RunFolder(place)
    with folder.claim("search", {"scorer": "fastv"}):
        assert list(place.rglob("*.tmp")) == []
        folder.finish()
    assert sorted(contents(place)) == ["result.txt", RECORD]


def test_an_owner_on_another_machine_is_believed(tmp_path):
    run(tmp_path / "a")
    files.write_json(tmp_path / "a" / LOCK, {"pid": 1, "machine": "elsewhere/boot/ns", "started": "5"})
    with pytest.raises(RunFolderError, match=r"process 1 on elsewhere.*delete .*run\.lock if that process is dead"):
        run(tmp_path / "a")


def test_many_processes_share_a_folder_that_says_so(tmp_path):
    first, second = RunFolder(tmp_path / "a"), RunFolder(tmp_path / "a")
    with first.claim("sweep", {}, shared=True), second.claim("sweep", {}, shared=True):
        first.write_text("one.frontier.json", "1")
        second.write_text("two.frontier.json", "2")
        first.write_text("journal.log", "")
        second.finish(growing=("journal.log",))
    record = check_files(tmp_path / "a")
    assert set(record.files) == {"one.frontier.json", "two.frontier.json", "journal.log"}
    assert record.files["journal.log"] is None


def test_a_part_of_a_larger_run_writes_into_its_folder(tmp_path):
    folder = RunFolder(tmp_path / "a")
    with folder.claim("demo", SETTINGS):
        with folder.claim("search", OTHER):
            folder.write_text("config.json", "{}")
        folder.write_text("report.html", "")
        folder.finish()
    assert read_record(tmp_path / "a").kind == "demo"


def test_a_folder_that_nothing_was_written_to_disappears(tmp_path):
    def fail() -> None:
        with RunFolder(tmp_path / "a").claim("search", SETTINGS):
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        fail()
    assert list(tmp_path.iterdir()) == []


def test_a_new_folder_has_the_next_number_and_an_unfinished_run_continues(tmp_path):
    def next_path(settings, *, finish):
        folder = RunFolder.new(tmp_path, "tiny qwen/fastv")
        with folder.claim("search", settings):
            folder.write_text("result.txt", "")
            if finish:
                folder.finish()
        return folder.path.name

    assert next_path(SETTINGS, finish=True) == "tiny-qwen-fastv-1"
    assert next_path(SETTINGS, finish=False) == "tiny-qwen-fastv-2"
    assert next_path(OTHER, finish=True) == "tiny-qwen-fastv-3"
    assert next_path(SETTINGS, finish=True) == "tiny-qwen-fastv-2"
    (tmp_path / "tiny-qwen-fastv-4").mkdir()
    (tmp_path / "tiny-qwen-fastv-4" / "mine").write_text("")
    assert next_path(SETTINGS, finish=True) == "tiny-qwen-fastv-5"


def test_a_staged_folder_replaces_its_older_version(tmp_path):
    folder = RunFolder(tmp_path / "a")
    with folder.claim("search", SETTINGS):
        for names in (("a", "b/c"), ("a",)):
            with folder.staging("predictor") as temporary:
                for name in names:
                    files.write_text(temporary / name, name)
            assert {name for name in folder.record.files if name.startswith("predictor")} == {
                f"predictor/{name}" for name in names
            }
        (tmp_path / "a" / "predictor" / "mine").write_text("")
        with folder.staging("predictor") as temporary:
            (temporary / "d").write_text("")
        folder.finish()
    assert sorted(contents(tmp_path / "a" / "predictor")) == ["d", "mine"]


def test_weights_that_no_disk_has_room_for_are_a_sentence(tmp_path):
    """safetensors has an error of its own for a full disk."""

    def write():
        raise SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)")

    folder = RunFolder(tmp_path / "a")
    with folder.claim("search", SETTINGS):
        told = pytest.raises(files.FileWriteError, match=r"cannot be written: .*No space left")
        with told, folder.staging("predictor"):
            write()
        with told, files.replacing(folder.file("weights")):
            write()
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize("change", ["flip", "cut", "delete", "exchange"])
def test_readers_refuse_a_damaged_file_and_a_mixture_by_name(tmp_path, change):
    run(tmp_path / "a", text="one result")
    run(tmp_path / "b", OTHER, text="two result")
    path = tmp_path / "a" / "result.txt"
    if change == "delete":
        path.unlink()
    else:
        path.write_text({"flip": "ona result", "cut": "one res", "exchange": "two result"}[change])
    with pytest.raises(files.DamagedFileError, match=r"a/result\.txt is"):
        check_files(tmp_path / "a")


@pytest.mark.parametrize(
    "content", ["", "{", "[]", "{}", '{"format": "vispco-run"}', '{"format": "vispco-run", "id": 1}', "\xff"]
)
def test_a_damaged_record_is_a_sentence(tmp_path, content):
    run(tmp_path / "a")
    (tmp_path / "a" / RECORD).write_bytes(content.encode("latin-1"))
    for reader in (check_files, run):
        with pytest.raises(InvalidInputError, match=r"run\.json"):
            reader(tmp_path / "a")


def test_a_folder_without_a_record_is_taken_over_by_a_run_that_knows_its_files(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "journal.log").write_text("1")
    folder = RunFolder(tmp_path / "a")
    folder.check(accepted=["*.log"])
    with folder.claim("sweep", {}, accepted=["*.log"]):
        folder.write_text("journal.log", "2")
    (tmp_path / "a" / RECORD).unlink()
    (tmp_path / "a" / "mine").write_text("")
    with pytest.raises(RunFolderError, match="mine"):
        folder.check(accepted=["*.log"])


def test_a_run_that_is_held_finishes_when_all_of_it_is_there(tmp_path):
    with RunFolder(tmp_path / "a").held() as folder:
        with folder.claim("search", SETTINGS):
            folder.declare("config.json", "never-written.json")
            files.write_json(tmp_path / "a" / "config.json", {})
            journal = folder.until_finish("journal.jsonl")
            journal.write_text("")
            folder.finish()
        assert not read_record(tmp_path / "a").finished
        assert (tmp_path / "a" / LOCK).exists()
        folder.write_text("examples.json", "[]")
        folder.finish()
    assert check_files(tmp_path / "a").files.keys() == {"config.json", "examples.json"}
    assert sorted(contents(tmp_path / "a")) == ["config.json", "examples.json", RECORD]
