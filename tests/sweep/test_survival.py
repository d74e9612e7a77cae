"""Workers and sweeps are killed in the middle; nothing is lost, nothing that was finished is repeated."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import optuna
import pytest

from sweep.program import children, start, until
from sweep.synthetic import LAYERS, Factory, evaluated, run_sweep
from vispco.evaluation.frontier import Frontier
from vispco.sweep.study import open_storage

GRID = {"name": "study", "space": "single", "strategy": "grid", "num_layers": LAYERS}
pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks into /proc")


@pytest.fixture
def log(tmp_path):
    return str(tmp_path / "log")


@pytest.fixture
def launch():
    """Starts programs, and sees to it that none outlives its test."""
    programs = []

    def one(factory, **options):
        programs.append(start(factory, **options))
        return programs[-1]

    yield one
    for program in programs:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()


@pytest.fixture
def whole(tmp_path):
    """What a sweep that nobody disturbs finds."""

    def undisturbed(**options):
        directory = tmp_path / "whole"
        return run_sweep(Factory(str(directory / "log")), directory=directory, workers=0, **(GRID | options))

    (tmp_path / "whole").mkdir()
    return undisturbed


def test_a_killed_worker_costs_one_evaluation(tmp_path, log, whole):
    options = GRID | {"num_layers": 2}
    found = run_sweep(Factory(log, dies_at=0.51), directory=tmp_path / "sweep", workers=1, **options)
    assert found == whole(num_layers=2)
    assert len(evaluated(log)) == 20 + 1


def test_a_killed_sweep_goes_on(tmp_path, log, whole, launch):
    program = launch({"log": log, "delay": 0.05}, directory=str(tmp_path / "sweep"), workers=1, **GRID)
    until(lambda: len(evaluated(log)) >= 20)
    workers = children(program.pid)
    program.kill()
    program.wait()
    assert len(workers) == 1
    until(lambda: not os.path.exists(f"/proc/{workers[0]}"), 60)  # noqa: PTH110  # its pipe has ended
    before = len(evaluated(log))
    found = run_sweep(Factory(log), directory=tmp_path / "sweep", workers=0, **GRID)
    assert found == whole()
    assert len(evaluated(log)) <= 101, "at most the one in flight is repeated"
    assert before < 100


@pytest.mark.parametrize("strategy", ["tpe", "nsga2"])
def test_a_killed_search_ends_where_it_would_have_ended(tmp_path, log, whole, strategy):
    """Not a restart from the same history, but the very same points: a sampler is a function of history and seed."""
    options = GRID | {"space": "stages", "strategy": strategy, "trials": 25}
    with pytest.raises(KeyboardInterrupt):
        run_sweep(Factory(log, interrupts_at=14), directory=tmp_path / "sweep", workers=0, **options)
    assert run_sweep(Factory(log), directory=tmp_path / "sweep", workers=0, **options) == whole(**options)


@pytest.mark.parametrize(("storage", "others"), [("journal", 2), ("sqlite", 1)])
def test_sweeps_of_one_study_share_the_work(tmp_path, log, whole, launch, storage, others):
    """Programs and this process claim from one study at the same time; one of the programs is killed."""
    url = f"sqlite:///{tmp_path}/study.db" if storage == "sqlite" else str(tmp_path / "shared.log")
    options = GRID | {"num_layers": 5, "storage": url}
    slow = {"log": log, "delay": 0.1}
    programs = [launch(slow, directory=str(tmp_path / f"{i}"), workers=0, **options) for i in range(others)]
    until(lambda: len(evaluated(log)) >= 3)

    def kill_one(progress):
        if progress.settled >= 15:
            programs[0].kill()

    found = run_sweep(Factory(**slow), directory=tmp_path / "sweep", workers=0, on_progress=kill_one, **options)
    assert [program.wait(240) for program in programs] == [-signal.SIGKILL, 0][:others]
    assert len(set(evaluated(log))) == 80
    assert len(evaluated(log)) <= 81, "the one that was in flight may be repeated, no other"
    assert found == whole(num_layers=5)
    assert len({t.user_attrs["run"] for t in trials_of(url)}) >= 2, "more than one of them worked"


def trials_of(url):
    return optuna.load_study(study_name="study", storage=open_storage(url, Path()).backend).trials


def test_sigterm_to_the_sweep_alone_stops_its_workers(tmp_path, log, launch):
    """`kill PID`, as schedulers do it: the workers used to live on."""
    program = launch({"log": log, "delay": 0.1}, directory=str(tmp_path / "sweep"), workers=1, **GRID)
    until(lambda: len(evaluated(log)) >= 5)
    workers = children(program.pid)
    assert len(workers) == 1
    program.terminate()
    assert program.wait(120) not in (0, -signal.SIGTERM)
    until(lambda: not any(os.path.exists(f"/proc/{pid}") for pid in workers), 60)  # noqa: PTH110
    assert not list((tmp_path / "sweep").rglob("*.tmp"))
    assert len(Frontier.load(tmp_path / "sweep" / "study.frontier.json")) >= 1


def test_ctrl_c_stops_the_workers_and_saves(tmp_path, log, launch):
    program = launch({"log": log, "delay": 0.1}, directory=str(tmp_path / "sweep"), workers=1, **GRID)
    until(lambda: len(evaluated(log)) >= 10)
    workers = children(program.pid)
    os.killpg(program.pid, signal.SIGINT)  # as a terminal does it: to everyone
    assert program.wait(120) != 0
    assert not any(os.path.exists(f"/proc/{pid}") for pid in workers)  # noqa: PTH110
    assert 5 <= len(Frontier.load(tmp_path / "sweep" / "study.frontier.json")) < 100
