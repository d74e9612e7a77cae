"""A journal with a damaged line is refused by name, and foreign files are left alone."""

from __future__ import annotations

import optuna
import pytest

from sweep.synthetic import LAYERS, Factory, evaluated, run_sweep
from vispco.core.errors import InvalidInputError
from vispco.core.runs.checksums import decode_line, encode_line
from vispco.core.runs.files import DamagedFileError

TRIALS = 4
DAMAGE = {
    "garbage": lambda line: b"\xff\x00 not JSON" + line[30:],
    "cut": lambda line: line[: len(line) // 2],
    "a flipped byte": lambda line: (
        line[: len(line) // 2] + bytes([line[len(line) // 2] ^ 1]) + line[len(line) // 2 + 1 :]
    ),
    "empty": lambda line: b"",
    "without its operation": lambda line: line.replace(b'"op_code"', b'"op_cOde"'),
}


def sweep(directory, log, strategy):
    return run_sweep(
        Factory(str(log)),
        name="study",
        space="single",
        strategy=strategy,
        num_layers=LAYERS,
        directory=directory,
        trials=TRIALS,
        workers=0,
        fingerprint={"model": "tiny"},
    )


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("strategy", ["random", "tpe"])
def test_a_damaged_line_is_refused_by_its_number_and_nothing_is_changed(tmp_path, strategy, kind):
    sweep(tmp_path / "whole", tmp_path / "log", strategy)
    lines = (tmp_path / "whole" / "journal.log").read_bytes().splitlines()
    for number in range(len(lines)):
        folder = tmp_path / str(number)
        folder.mkdir()
        damaged = b"\n".join([*lines[:number], DAMAGE[kind](lines[number]), *lines[number + 1 :]]) + b"\n"
        (folder / "journal.log").write_bytes(damaged)
        with pytest.raises(DamagedFileError, match=rf"journal\.log is damaged: line {number + 1} is not"):
            sweep(folder, tmp_path / "log", strategy)
        assert (folder / "journal.log").read_bytes() == damaged
    assert len(evaluated(str(tmp_path / "log"))) == TRIALS


@pytest.mark.parametrize("strategy", ["random", "tpe"])
def test_a_damaged_line_break_is_refused_and_an_unfinished_line_is_evaluated_again(tmp_path, strategy):
    whole = sweep(tmp_path / "whole", tmp_path / "log", strategy)
    content = (tmp_path / "whole" / "journal.log").read_bytes()
    for number, place in enumerate(place for place, byte in enumerate(content) if byte == ord("\n")):
        folder, log = tmp_path / str(number), tmp_path / f"{number}.log"
        folder.mkdir()
        log.touch()
        changed = content[:place] + bytes([ord("\n") ^ 1 << number % 8]) + content[place + 1 :]
        (folder / "journal.log").write_bytes(changed)
        if place == len(content) - 1:
            assert sweep(folder, log, strategy) == whole
        else:
            with pytest.raises(DamagedFileError, match=rf"line {number + 1} is not"):
                sweep(folder, log, strategy)


def test_optuna_reads_the_journal(tmp_path):
    for _ in range(2):
        sweep(tmp_path, tmp_path / "log", "random")
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal.log"))
    study = optuna.load_study(study_name="study", storage=optuna.storages.JournalStorage(backend))
    assert len(study.trials) == TRIALS


def test_a_checksum_finds_a_changed_digit_and_lines_of_others_have_none():
    log = {"op_code": 6, "worker_id": "w", "trial_id": 3, "state": 1, "values": [0.5, 0.25]}
    line = encode_line(log)
    assert decode_line(line)["values"] == [0.5, 0.25]
    assert decode_line(line.replace(b"0.25", b"0.75")) is None
    assert decode_line(b'{"op_code":1,"worker_id":"w","study_id":0}') == {
        "op_code": 1,
        "worker_id": "w",
        "study_id": 0,
    }
    assert decode_line(b"[1, 2]") is None


@pytest.mark.parametrize("content", [b"shopping list", b"milk\nbread\n", b'{"points": []}\n'])
def test_a_file_that_is_no_journal_is_refused_and_not_changed(tmp_path, content):
    path = tmp_path / "journal.log"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="not an Optuna journal"):
        sweep(tmp_path, tmp_path / "log", "random")
    assert path.read_bytes() == content
