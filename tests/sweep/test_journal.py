"""A journal with a damaged line is read, what the line held is evaluated again, and foreign files are left alone."""

from __future__ import annotations

import warnings

import optuna
import pytest

from sweep.synthetic import LAYERS, Factory, evaluated, run_sweep
from vispco.core.errors import InvalidInputError
from vispco.core.runs.checksums import DamagedJournalWarning, encode_line
from vispco.sweep.journal import decode_operation

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
        engine="inline",
        fingerprint={"model": "tiny"},
    )


@pytest.mark.parametrize("kind", DAMAGE)
@pytest.mark.parametrize("strategy", ["random", "tpe"])
def test_no_damaged_line_loses_the_sweep(tmp_path, strategy, kind):
    whole = sweep(tmp_path / "whole", tmp_path / "log", strategy)
    lines = (tmp_path / "whole" / "journal.log").read_bytes().splitlines()
    for number in range(len(lines)):
        folder, log = tmp_path / str(number), tmp_path / f"{number}.log"
        folder.mkdir()
        log.touch()
        damaged = [*lines[:number], DAMAGE[kind](lines[number]), *lines[number + 1 :]]
        (folder / "journal.log").write_bytes(b"\n".join(damaged) + b"\n")
        with pytest.warns(DamagedJournalWarning, match="1 damaged line"):
            found = sweep(folder, log, strategy)
        assert found == whole, f"line {number}: {lines[number]!r}"
        assert len(evaluated(str(log))) <= 1, "only what the line held is evaluated again"


@pytest.mark.parametrize("strategy", ["random", "tpe"])
def test_a_damaged_line_break_loses_nothing(tmp_path, strategy):
    whole = sweep(tmp_path / "whole", tmp_path / "log", strategy)
    content = (tmp_path / "whole" / "journal.log").read_bytes()
    breaks = [place for place, byte in enumerate(content[:-1]) if byte == ord("\n")]
    for number, place in enumerate(breaks):
        folder, log = tmp_path / str(number), tmp_path / f"{number}.log"
        folder.mkdir()
        log.touch()
        (folder / "journal.log").write_bytes(
            content[:place] + bytes([ord("\n") ^ 1 << number % 8]) + content[place + 1 :]
        )
        assert sweep(folder, log, strategy) == whole
        assert evaluated(str(log)) == []


def test_a_whole_journal_has_no_damaged_lines_and_optuna_reads_it(tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", DamagedJournalWarning)
        for _ in range(2):
            sweep(tmp_path, tmp_path / "log", "random")
    backend = optuna.storages.journal.JournalFileBackend(str(tmp_path / "journal.log"))
    study = optuna.load_study(study_name="study", storage=optuna.storages.JournalStorage(backend))
    assert len(study.trials) == TRIALS


def test_a_checksum_finds_a_changed_digit_and_old_lines_have_none():
    log = {"op_code": 6, "worker_id": "w", "trial_id": 3, "state": 1, "values": [0.5, 0.25]}
    line = encode_line(log)
    assert decode_operation(line)["values"] == [0.5, 0.25]
    assert decode_operation(line.replace(b"0.25", b"0.75")) is None
    assert decode_operation(b'{"op_code":1,"worker_id":"w","study_id":0}') == {
        "op_code": 1,
        "worker_id": "w",
        "study_id": 0,
    }
    assert decode_operation(b'{"op_code":99,"worker_id":"w"}') is None
    assert decode_operation(b"[1, 2]") is None


@pytest.mark.parametrize("content", [b"shopping list", b"milk\nbread\n", b'{"points": []}\n'])
def test_a_file_that_is_no_journal_is_refused_and_not_changed(tmp_path, content):
    path = tmp_path / "journal.log"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match="not an Optuna journal"):
        sweep(tmp_path, tmp_path / "log", "random")
    assert path.read_bytes() == content
