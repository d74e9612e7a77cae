"""Hostile folders and files, case by case: a sentence that names the place, nothing outside touched, nothing lost."""

from __future__ import annotations

import errno
import json
import os
import shutil
from contextlib import suppress
from pathlib import Path

import pytest
import torch

from vispco.core.errors import VispcoError
from vispco.core.runs import files
from vispco.core.runs.checkpoint_file import load_checkpoint, save_checkpoint
from vispco.core.runs.option_files import read_options
from vispco.core.runs.run_folder import RunFolder
from vispco.core.runs.run_record import (
    LOCK,
    RECORD,
    RunFolderError,
    check_complete,
    check_files,
    check_output,
    check_recorded,
    read_record,
    record_output,
)
from vispco.cost.time_profile import TimeProfile
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.pruner.search_files import read_config, read_shapes
from vispco.report.run_files import read as read_report
from vispco.sweep.journal import SweepJournal, file_lock
from vispco.sweep.study import open_storage

SETTINGS = {"scorer": "fastv"}
LONG = "x" * 300


def write_run(path: Path, settings=SETTINGS, *, overwrite=False, **options) -> None:
    folder = RunFolder(path, overwrite=overwrite)
    with folder.claim("search", settings, **options):
        folder.write_text("result.txt", "result")
        folder.write_json("training/state.json", {"step": 1})
        with folder.staging("predictor") as temporary:
            (temporary / "weights").write_text("weights")
        folder.finish()


def tree(folder: Path) -> dict[str, object]:
    """Everything below a folder: what files hold and where links lead."""
    found: dict[str, object] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = str(path.readlink()) if path.is_symlink() else path.read_bytes() if path.is_file() else "folder"
    return found


def replace_by_link(path: Path, target: Path | str, *, keep: bool = True) -> None:
    """A link in place of a file, whose content the target gets."""
    if keep:
        Path(target).write_bytes(path.read_bytes())
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def replace_by_folder(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()
    (path / "mine").write_text("mine")


def edit_record(run: Path, **changed: object) -> None:
    data = {**json.loads((run / RECORD).read_text()), **changed}
    files.write_text(run / RECORD, json.dumps({key: value for key, value in data.items() if key != "checksum"}))


def link_parent(run: Path, outside: Path) -> None:
    shutil.move(run / "training", outside / "training")
    (run / "training").symlink_to(outside / "training")


DAMAGES = {
    "record is a link out": lambda run, out: replace_by_link(run / RECORD, out / "record.json"),
    "record is a dangling link": lambda run, out: replace_by_link(run / RECORD, out / "nothing", keep=False),
    "record is a loop": lambda run, out: replace_by_link(run / RECORD, RECORD, keep=False),
    "record is a folder": lambda run, out: replace_by_folder(run / RECORD),
    "record is a pipe": lambda run, out: ((run / RECORD).unlink(), os.mkfifo(run / RECORD)),
    "record of a newer version": lambda run, out: edit_record(run, version=99),
    "record with a version that is a word": lambda run, out: edit_record(run, version="new"),
    "record lists a name out of the folder": lambda run, out: edit_record(run, files={"../outside/mine": None}),
    "record lists an absolute name": lambda run, out: edit_record(run, files={str(out / "mine"): None}),
    "record lists a long name": lambda run, out: edit_record(run, files={LONG: None}),
    "record lists a long name with a sum": lambda run, out: edit_record(run, files={LONG: "0" * 64}),
    "record lists a null byte": lambda run, out: edit_record(run, files={"a\0b": None}),
    "record lists a null byte in outputs": lambda run, out: edit_record(run, outputs={"a\0b": "0"}),
    "record lists a surrogate": lambda run, out: edit_record(run, files={"a\ud800b": None}),
    "record lists itself": lambda run, out: edit_record(run, files={RECORD: None}),
    "record lists the folder": lambda run, out: edit_record(run, files={".": None}),
    "record has a number for a checksum": lambda run, out: edit_record(run, files={"result.txt": 5}),
    "record has a word for finished": lambda run, out: edit_record(run, finished="yes"),
    "result is a link out": lambda run, out: replace_by_link(run / "result.txt", out / "result.txt"),
    "result is a dangling link out": lambda run, out: replace_by_link(run / "result.txt", out / "no", keep=False),
    "result is a loop": lambda run, out: replace_by_link(run / "result.txt", "result.txt", keep=False),
    "result is a folder": lambda run, out: replace_by_folder(run / "result.txt"),
    "result below a link out": link_parent,
    "lock is a link out": lambda run, out: replace_by_link(run / LOCK, out / "mine", keep=False),
    "lock is a dangling link out": lambda run, out: replace_by_link(run / LOCK, out / "no", keep=False),
    "lock is a loop": lambda run, out: replace_by_link(run / LOCK, LOCK, keep=False),
    "lock is a folder": lambda run, out: replace_by_folder(run / LOCK),
    "lock of an endless number": lambda run, out: (run / LOCK).write_text('{"pid": 1e999, "machine": "x"}'),
    "lock of no number": lambda run, out: (run / LOCK).write_text('{"pid": NaN, "machine": "x"}'),
    "lock of a huge number": lambda run, out: (run / LOCK).write_text(f'{{"pid": {10**30}, "machine": "x"}}'),
    "lock of an odd machine": lambda run, out: (run / LOCK).write_text('{"pid": 1, "machine": [1]}'),
    "a link to a folder with leftovers": lambda run, out: (run / "elsewhere").symlink_to(out),
}
ACTS = {
    "check": lambda run: RunFolder(run).check(),
    "continue": write_run,
    "overwrite": lambda run: write_run(run, {"scorer": "random"}, overwrite=True),
    "share": lambda run: write_run(run, shared=True),
    "check_files": check_files,
    "check_complete": check_complete,
    "check_recorded": lambda run: check_recorded(run / "result.txt"),
    "check_output": lambda run: check_output(run / "evaluation.json", "vispco-evaluation"),
    "record_output": lambda run: record_output(files.write_text(run / "page.html", "page")),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("damage", DAMAGES)
def test_a_hostile_run_folder_is_a_sentence_or_harmless(tmp_path, damage, act):
    run, outside = tmp_path / "run", tmp_path / "outside"
    write_run(run)
    outside.mkdir()
    (outside / "mine").write_text("mine")
    (outside / ".mine.vispco-999999999-0.tmp").write_text("mine")  # as a dead process leaves it
    DAMAGES[damage](run, outside)
    before, inside = tree(outside), tree(run)
    try:
        ACTS[act](run)
    except VispcoError as error:
        assert str(run) in str(error)  # noqa: PT017 - it may also be harmless
        assert str(error).endswith(".")  # noqa: PT017
        kept = {name: held for name, held in inside.items() if name != "page.html"}
        assert {name: held for name, held in tree(run).items() if name in kept} == kept, "a refusal loses nothing"
    assert tree(outside) == before


@pytest.mark.parametrize("act", ["continue", "overwrite", "share", "check_files", "check_output"])
@pytest.mark.parametrize(
    "damage",
    ["record is a link out", "result is a link out", "result is a dangling link out", "result below a link out"],
)
def test_links_out_of_a_run_are_refused_and_named(tmp_path, damage, act):
    run, outside = tmp_path / "run", tmp_path / "outside"
    write_run(run)
    outside.mkdir()
    DAMAGES[damage](run, outside)
    before = tree(tmp_path)
    with pytest.raises(RunFolderError, match=r"(run\.json|result\.txt|training/state\.json) (is a link|lies outside)"):
        ACTS[act](run)
    assert tree(tmp_path) == before


def test_a_new_file_is_not_written_through_a_link(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    folder = RunFolder(tmp_path / "run")
    with folder.claim("search", SETTINGS):
        folder.write_text("result.txt", "")
        (tmp_path / "run" / "folder").symlink_to(outside)
        (tmp_path / "run" / "new.txt").symlink_to(outside / "new.txt")
        for name in ("folder/new.txt", "new.txt"):
            for write in (folder.file, folder.declare, folder.until_finish, lambda name: folder.write_text(name, "x")):
                with pytest.raises(RunFolderError, match=r"new\.txt (is a link|lies outside)"):
                    write(name)
        with pytest.raises(RunFolderError, match="lies outside"), folder.staging("folder") as temporary:
            (temporary / "new.txt").write_text("x")
    assert tree(outside) == {}


def test_a_lock_whose_number_now_belongs_to_another_process_is_stale(tmp_path):
    """The number of a dead process is given again; the time of its start is not."""
    run = tmp_path / "run"
    with RunFolder(run).claim("search", SETTINGS):
        owner = json.loads((run / LOCK).read_text())
    if not owner["started"].isdigit():
        pytest.skip("this system does not tell when a process started")
    for pid, started, stale in (
        (os.getpid(), owner["started"], False),
        (os.getpid(), str(int(owner["started"]) - 1), True),
        (1, owner["started"], True),
    ):
        shutil.rmtree(run, ignore_errors=True)
        write_run(run)
        files.write_json(run / LOCK, {**owner, "pid": pid, "started": started})
        if stale:
            write_run(run)
            assert not (run / LOCK).exists()
        else:
            with pytest.raises(RunFolderError, match=f"in use by process {pid}"):
                write_run(run)


@pytest.mark.parametrize("code", ["ENOLCK", "EOPNOTSUPP", "ESTALE", "EIO", "EINVAL"])
@pytest.mark.parametrize("act", ["continue", "overwrite", "share", "record_output", "new", "lock", "journal"])
def test_a_file_system_without_locks_is_a_sentence(tmp_path, monkeypatch, code, act):
    import fcntl

    run = tmp_path / "run"
    if act != "new":
        write_run(run)
    journal = SweepJournal(tmp_path / "journal.log")

    def fail(*_: object) -> None:
        raise OSError(getattr(errno, code), os.strerror(getattr(errno, code)))

    def lock() -> None:
        with file_lock(tmp_path / "journal.log.flock"):
            pass

    monkeypatch.setattr(fcntl, "flock", fail)
    acts = {**{name: lambda name=name: ACTS[name](run) for name in ACTS}, "new": lambda: write_run(run), "lock": lock}
    acts["journal"] = lambda: journal.append_logs([{"op_code": 0, "worker_id": "a"}])
    before = tree(tmp_path)
    with pytest.raises(RunFolderError) as told:
        acts[act]()
    assert os.strerror(getattr(errno, code)) in str(told.value)
    assert str(tmp_path) in str(told.value)
    assert "--out" in str(told.value)
    after = tree(tmp_path)
    assert {name: held for name, held in after.items() if name in before} == before
    assert set(after) - set(before) <= {"run/page.html", "run", "journal.log.flock"}


LOOP: dict[str, object] = {}
LOOP["own"] = LOOP
SETTINGS_THAT_ARE_NO_JSON = {
    "NaN": {"rate": float("nan")},
    "infinity": {"deep": [{"rate": float("-inf")}]},
    "an object": {"rate": object()},
    "a loop": LOOP,
}


@pytest.mark.parametrize("settings", SETTINGS_THAT_ARE_NO_JSON.values(), ids=SETTINGS_THAT_ARE_NO_JSON)
def test_settings_that_no_record_can_hold_are_refused(tmp_path, settings):
    with pytest.raises(RunFolderError, match=r"settings of the run in .*run"):
        write_run(tmp_path / "run", settings)
    assert list(tmp_path.iterdir()) == []


def test_a_number_that_json_has_not_is_a_sentence(tmp_path):
    for seal in (False, True):
        with pytest.raises(files.FileWriteError, match=r"result\.json cannot be written: .*NaN"):
            files.write_json(tmp_path / "result.json", {"kl": float("nan")}, seal=seal)
    assert list(tmp_path.iterdir()) == []


def hostile_places(tmp_path: Path) -> dict[str, Path | str]:
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "dangling").symlink_to("nothing")
    (tmp_path / "file").write_text("mine")
    os.mkfifo(tmp_path / "pipe")
    return {
        "long": tmp_path / LONG,
        "null byte": f"{tmp_path}/a\0b",
        "below a long name": tmp_path / LONG / "run",
        "loop": tmp_path / "loop",
        "below a loop": tmp_path / "loop" / "run",
        "dangling": tmp_path / "dangling",
        "below a file": tmp_path / "file" / "run",
        "pipe": tmp_path / "pipe",
        "a file": tmp_path / "file",
        "deep": tmp_path / "/".join(["y" * 100] * 50),
        "nobody's home": "~no-such-user/run",
    }


PLACES = (
    *("long", "null byte", "below a long name", "loop", "below a loop", "dangling", "below a file", "pipe", "a file"),
    *("deep", "nobody's home"),
)
READERS = {
    "run": write_run,
    "check": lambda place: RunFolder(place).check(),
    "new": lambda place: write_run(RunFolder.new(place, "search").path),
    "check_output": check_output,
    "write": lambda place: files.write_text(Path(place) / "x", "x"),
    "append": lambda place: files.append_line(Path(place) / "x", "x"),
    "check_writable": lambda place: files.check_writable(Path(place) / "x"),
    "read": files.read_json,
    "digest": files.digest_file,
    "checkpoint": lambda place: load_checkpoint(Path(place)),
    "save checkpoint": lambda place: save_checkpoint(Path(place) / "x", {"a": torch.zeros(1)}, {}),
    "config": lambda place: read_options(Path(place), "search"),
    "pruner": PrunerSpec.load,
    "report": read_report,
    "search config": lambda place: read_config(Path(place)),
    "shapes": lambda place: read_shapes(Path(place)),
    "profile": TimeProfile.read,
    "journal": lambda place: open_storage(str(place), Path(place)),
    "lines": files.read_json_lines,
    "check_files": check_files,
    "check_recorded": check_recorded,
}


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("place", PLACES)
def test_a_place_that_cannot_be_is_a_sentence(tmp_path, monkeypatch, place, reader):
    monkeypatch.chdir(tmp_path)
    given = hostile_places(tmp_path)[place]
    before = set(tree(tmp_path))
    try:
        READERS[reader](given)
    except VispcoError as error:
        assert str(given)[:60] in str(error) or repr(str(given))[1:60] in str(error)  # noqa: PT017 - or nothing is there
        assert str(error).endswith((".", "?"))  # noqa: PT017
    assert before <= set(tree(tmp_path))
    assert (tmp_path / "file").read_text() == "mine"


def bomb(levels: int) -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join([*lines, f"scorer: *a{levels - 1}", ""])


HOSTILE_YAML = {
    "alias bomb": bomb(9),
    "merge bomb": "a: &a {x: 1}\n" + "".join(f"b{n}: &b{n} [*{'a' if n == 0 else f'b{n - 1}'}, *{'a' if n == 0 else f'b{n - 1}'}]\n" for n in range(40)),
    "own alias": "scorer: &a [*a]\n",
    "huge hexadecimal": f"seed: 0x{'f' * 20000}\n",
    "huge number": f"seed: {'9' * 5000}\n",
    "no date": "scorer: 2020-99-99\n",
    "deep": "scorer: " + "[" * 3000 + "]" * 3000,
    "tag": "scorer: !!python/object/apply:os.system ['true']\n",
    "null byte": "scorer: a\0b\n",
    "list key": "? [a]\n: b\n",
    "not UTF-8": b"scorer: \xff\n",
}  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE_YAML.values(), ids=HOSTILE_YAML)
def test_a_hostile_config_is_refused_before_it_is_expanded(invoke, tmp_path, text):
    place = tmp_path / "options.yaml"
    place.write_bytes(text if isinstance(text, bytes) else text.encode())
    done = invoke("search", "tiny-llava", "--config", place, "--out", tmp_path / "run")
    assert done.code == 1
    assert "options.yaml" in done.err
    assert "Traceback" not in done.err
    assert "Error:" not in done.err
    assert not (tmp_path / "run").exists()


def test_a_config_may_use_an_alias(tmp_path):
    (tmp_path / "a.yaml").write_text("usual: &usual {seed: 3, scorer: fastv}\nsearch:\n  <<: *usual\n  seed: 4\n")
    assert read_options(tmp_path / "a.yaml", "search") == {"seed": 4, "scorer": "fastv"}


PRUNER = {
    "format": "vispco-pruner",
    "version": 1,
    "chain": {"name": "fastv"},
    "planner": {"kind": "schedule", "schedule": {"retention": [1.0, 0.5]}},
}
HOSTILE_PRUNERS = {
    "a newer version": ({"version": 99}, r"version 99.*reads.*1.*vispco"),
    "a version that is no number": ({"version": "1.0"}, "version"),
    "a version that is true": ({"version": True}, "version"),
    "version 0": ({"version": 0}, "version"),
    "fingerprint 5": ({"fingerprint": 5}, "fingerprint"),
    "an empty fingerprint": ({"fingerprint": {}}, "fingerprint"),
    "fingerprint of a list": ({"fingerprint": []}, "fingerprint"),
    "cost 5": ({"cost": 5}, "cost"),
    "cost of a list": ({"cost": ["exact"]}, "cost"),
    "versions 5": ({"versions": 5}, "pruner"),
    "a planner without a kind": ({"planner": {"schedule": 1}}, "planner"),
    "a budget of NaN": ({"budget": float("nan")}, "budget"),
    "a budget of a list": ({"budget": [0.5]}, "budget"),
    "a chain that is a number": ({"chain": 5}, "5"),
    "an allocation that is not known": ({"allocation": "x"}, "x"),
    "a schedule of words": ({"planner": {"kind": "schedule", "schedule": {"retention": "abc"}}}, "schedule"),
    "a schedule that grows": ({"planner": {"kind": "schedule", "schedule": {"retention": [0.5, 1.0]}}}, "1"),
}


@pytest.mark.parametrize(("changed", "told"), HOSTILE_PRUNERS.values(), ids=HOSTILE_PRUNERS)
def test_a_hostile_pruner_is_a_sentence(invoke, tmp_path, changed, told):
    place = tmp_path / "pruner.json"
    place.write_text(json.dumps({**PRUNER, **changed}))
    with pytest.raises(VispcoError, match=told) as refused:
        PrunerSpec.load(place).schedule  # noqa: B018
    assert str(place) in str(refused.value) or "retention" in json.dumps(changed)
    done = invoke("evaluate", "tiny-llava", "--pruner", place, "--limit", "1", "--tasks", "attribute")
    assert done.code == 1
    assert "Traceback" not in done.err
    assert "Error:" not in done.err


@pytest.mark.parametrize("version", [99, "new", True, 0])
@pytest.mark.parametrize("name", [RECORD, "config.json"])
def test_a_file_of_a_newer_version_is_named_with_the_versions_that_are_read(invoke, run, name, version):
    data = json.loads((run / name).read_text())
    data = {**{key: value for key, value in data.items() if key != "checksum"}, "version": version}
    (run / name).write_text(json.dumps(data))
    record = read_record(run) if name != RECORD else None
    if record is not None:
        edit_record(run, files={**record.files, name: files.digest_file(run / name)})
    done = invoke("export", run, "--budget", "0.5")
    assert done.code == 1
    assert name in done.err
    assert f"version {version!r}" in " ".join(done.err.split())
    if version == 99:
        assert "Use a newer vispco" in " ".join(done.err.split())


@pytest.mark.parametrize(
    "damage", ["record is a link out", "record is a loop", "record lists a long name", "record lists a null byte"]
)
@pytest.mark.parametrize("command", [("report",), ("export", "--budget", "0.5"), ("search", "tiny-llava", "--out")])
def test_commands_on_a_hostile_folder_fail_with_a_sentence(invoke, run, tmp_path, command, damage):
    outside = tmp_path / "outside"
    outside.mkdir()
    DAMAGES[damage](run, outside)
    before = tree(tmp_path)
    arguments = (*command, run) if command[0] == "search" else (command[0], run, *command[1:])
    done = invoke(*arguments)
    if done.code == 0:  # a folder whose record cannot be seen is read as one without
        assert damage == "record is a loop"
        return
    assert done.code == 1
    assert str(run) in " ".join(done.err.split()) or run.name in done.err
    assert "Traceback" not in done.err
    assert "Error:" not in done.err
    assert tree(tmp_path) == before
    with suppress(FileNotFoundError):
        assert not (run / LOCK).exists()
