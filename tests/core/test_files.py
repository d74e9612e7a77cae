"""A file is written whole or not at all, and a damaged one is named."""

import errno
import hashlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from vispco.core.errors import InvalidInputError, VispcoError
from vispco.core.runs import files

WRITERS = {
    "text": lambda path: files.write_text(path, "new"),
    "json": lambda path: files.write_json(path, ["new"]),
    "bytes": lambda path: files.write_bytes(path, b"new"),
}


def names(folder: Path) -> list[str]:
    return [path.name for path in folder.iterdir()]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
def test_a_file_is_replaced_and_nothing_else_is_left(tmp_path, write):
    target = tmp_path / "new" / "folder" / "result"
    for _ in range(2):
        write(target)
        assert "new" in target.read_text()
        assert names(target.parent) == ["result"]


@pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_in_the_middle_leaves_the_old_file_and_no_temporary(tmp_path, monkeypatch, write, step):
    target = tmp_path / "result"
    target.write_text("old")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os if step == "fsync" else Path, step, full)
    with pytest.raises(files.FileWriteError, match=r"result cannot be written: No space left on device\."):
        write(target)
    assert names(tmp_path) == ["result"]
    assert target.read_text() == "old"


def test_a_stop_in_the_middle_leaves_the_old_file_and_no_temporary(tmp_path):
    target = tmp_path / "result"
    target.write_text("old")

    def write() -> None:
        with files.replacing(target) as temporary:
            temporary.write_text("half of the ne")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert names(tmp_path) == ["result"]
    assert target.read_text() == "old"


def test_a_full_disk_is_a_sentence(tmp_path):
    """/dev/full accepts a file handle and fails at the write, as a full disk does."""
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    target = tmp_path / "result"

    def write() -> None:
        with files.replacing(target) as temporary:
            temporary.symlink_to("/dev/full")
            temporary.write_text("new")

    with pytest.raises(files.FileWriteError, match="No space left"):
        write()
    assert names(tmp_path) == []


@pytest.fixture
def read_only():
    """A folder that this process may read but not write, also where the tests run as root."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o555)
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    yield folder
    if root:
        os.seteuid(0)
    folder.rmdir()


def test_a_read_only_folder_is_a_sentence(read_only):
    with pytest.raises(files.FileWriteError, match="Permission denied"):
        files.write_text(read_only / "result", "new")
    with pytest.raises(files.FileWriteError, match="Permission denied"):
        files.append_line(read_only / "result", "new")
    with pytest.raises(files.FileWriteError, match="Nothing can be written"):
        files.check_writable(read_only / "result")
    assert names(read_only) == []


def test_a_place_that_no_file_can_have_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    for place in (tmp_path, tmp_path / "file" / "below", "", "..", "/dev/null"):
        with pytest.raises(files.FileWriteError):
            files.write_text(place, "new")
        with pytest.raises(files.FileWriteError):
            files.check_writable(place)
    assert names(tmp_path) == ["file"]


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "real").write_text("old")
    (tmp_path / "link").symlink_to("real")
    files.write_text(tmp_path / "link", "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "new"


def test_a_long_name_can_be_written(tmp_path):
    files.write_text(tmp_path / ("n" * 250), "new")
    assert names(tmp_path) == ["n" * 250]


def test_json_is_json_for_every_reader(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        files.write_json(tmp_path / "a.json", float("nan"))
    assert names(tmp_path) == []


def test_lines_are_added_behind_whole_lines_only(tmp_path):
    path = tmp_path / "log"
    files.append_line(path, '{"a": 1}')
    with path.open("a") as file:
        file.write('{"a": 2')
    assert files.read_json_lines(path) == [{"a": 1}]
    files.append_line(path, '{"a": 3}')
    assert path.read_text() == '{"a": 1}\n{"a": 3}\n'
    path.write_text("x" * (files.BLOCK * 2 + 5))
    files.append_line(path, "[]")
    assert path.read_text() == "[]\n"


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (None, "The schedule {} cannot be read: No such file or directory. Write it again."),
        (b"{", "The schedule {} is damaged: it is not JSON"),
        (b"\xff", "The schedule {} is damaged: it is not a text in UTF-8. Write it again."),
        (b"[" * 100_000, "The schedule {} is damaged: it is nested too deeply. Write it again."),
        (b"[]", "The schedule {} is damaged: it holds a list, not a JSON object. Write it again."),
    ],
)
def test_what_is_wrong_with_a_file_is_said_in_a_sentence(tmp_path, content, told):
    path = tmp_path / "a.json"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(InvalidInputError) as failed:
        files.read_json_object(path, what="schedule", remedy="Write it again.")
    assert isinstance(failed.value, VispcoError)
    assert str(failed.value).startswith(told.format(path))
    assert str(failed.value).endswith(" Write it again.")


def test_a_damaged_line_is_named_by_its_number(tmp_path):
    path = tmp_path / "log"
    path.write_text("{}\n{\n{}\n")
    with pytest.raises(files.DamagedFileError, match="line 2 is not JSON"):
        files.read_json_lines(path)


def test_a_named_pipe_is_refused_and_does_not_hang(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(files.FileReadError, match="not a regular file"):
        files.read_json(tmp_path / "pipe")
    with pytest.raises(files.FileWriteError, match="not a regular file"):
        files.write_text(tmp_path / "pipe", "new")


def test_checking_leaves_nothing_behind(tmp_path):
    files.check_writable(tmp_path / "a" / "b" / "c.json")
    assert names(tmp_path) == []


def test_digests(tmp_path):
    files.write_text(tmp_path / "a", "text")
    assert files.digest_files(tmp_path, ["a"]) == {"a": hashlib.sha256(b"text").hexdigest()}


def test_temporary_files_of_dead_processes_are_removed_and_nothing_else(tmp_path):
    code = (
        "import os, sys; from vispco.core.runs import files\n"
        "with files.replacing(sys.argv[1]) as temporary: temporary.write_text('half'); os._exit(9)"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "result")], check=False)
    assert len(names(tmp_path)) == 1
    others = {"mine.tmp", ".mine.tmp", ".a.vispco-x-0.tmp", f".a.vispco-{os.getpid()}-0.tmp"}
    others |= {".a.vispco-999999999-0-0badcafe.tmp"}  # of another machine, where it may live
    for name in others:
        (tmp_path / name).write_text(json.dumps(name))
    files.remove_abandoned(tmp_path)
    assert set(names(tmp_path)) == others
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "result")], check=False)
    files.write_text(tmp_path / "result", "whole")
    assert set(names(tmp_path)) == others | {"result"}, "the next try removes what the killed one left"
