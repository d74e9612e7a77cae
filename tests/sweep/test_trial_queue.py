"""Each configuration is evaluated exactly once: cut journals, dead sweeps, two processes at one configuration."""

from __future__ import annotations

import os
import subprocess
import sys

import optuna
import pytest
from optuna.trial import TrialState

from sweep.synthetic import LAYERS, Factory
from vispco.sweep import heartbeat
from vispco.sweep import trial_queue as trials
from vispco.sweep.heartbeat import _KEY_PREFIX
from vispco.sweep.pools import Outcome
from vispco.sweep.runner import Dispatcher
from vispco.sweep.spec import SweepSpec
from vispco.sweep.study import SweepStudy, open_storage
from vispco.sweep.trial_queue import TrialQueue


@pytest.fixture
def queues(tmp_path):
    """Views of one study as two sweeps have them, each through a storage of its own."""

    def make(strategy="grid", trials=None, storage=None):
        def one(run):
            store = open_storage(storage, tmp_path)
            wanted = SweepSpec(space="single", strategy=strategy, num_layers=LAYERS, trials=trials).plan()
            return TrialQueue(SweepStudy.open(store, "study", {"space": "single"}), wanted, run)

        return one("a"), one("b")

    return make


def finish(queue, claim):
    queue.record(claim, Factory(os.devnull)()(claim.schedule))


@pytest.mark.parametrize("storage", [None, "sqlite"])
def test_claims_do_not_meet(queues, tmp_path, storage):
    one, other = queues(storage=storage and f"sqlite:///{tmp_path}/study.db")
    assert [queue.claim().config for queue in (one, other, one, other)] == ["grid:0", "grid:1", "grid:2", "grid:3"]


def test_of_two_trials_for_one_configuration_the_lower_number_counts(queues, monkeypatch):
    """Both look at the study before either writes: the race that a check before a claim loses."""
    one, other = queues()
    stale = other.study.trials()
    first = one.claim()
    monkeypatch.setattr(other.study, "trials", iter([stale]).__next__)  # `other` has not seen it yet
    with pytest.raises(StopIteration):
        other.claim()
    monkeypatch.undo()
    assert [trials._configuration_names(one.study.trials(), one.plan)[n] for n in (0, 1)] == ["grid:0", "grid:0"]
    assert other._reason_to_drop(other.study.trials(), 1, "grid:0") == "Another trial does this."
    assert one._reason_to_drop(one.study.trials(), first.number, "grid:0") is None


def test_what_a_sweep_that_ended_was_running_is_queued_again_once(queues):
    one, other = queues()
    lost = one.claim()
    other.study.set_attribute(_KEY_PREFIX + "a", {"ended": True})
    other.requeue_abandoned()
    other.requeue_abandoned()
    again = other.claim()
    assert (again.config, again.schedule) == (lost.config, lost.schedule)
    assert other.claim().config == "grid:1"
    finish(one, lost)  # it was alive after all, and is too late
    finish(other, again)
    other.refresh()
    assert other.counts() == (1, 0)
    assert len(other.frontier()) == 1


def test_a_sweep_that_was_thought_dead_and_finishes_in_time_is_believed(queues):
    one, other = queues()
    slow = one.claim()
    other.study.set_attribute(_KEY_PREFIX + "a", {"ended": True})
    orphan = other.study.trials()[0]
    other.study.add_trial(TrialState.WAITING, orphan.params, orphan.distributions, {"config": "grid:0", "attempt": 1})
    finish(one, slow)
    assert other.claim().config in {"grid:1", "grid:2"}, "the second attempt is dropped, and the next looks further"


def test_a_living_sweep_is_left_alone(queues):
    one, other = queues()
    one.claim()
    with heartbeat.Heartbeat(lambda run, record: other.study.set_attribute(_KEY_PREFIX + "a", record)):
        other.requeue_abandoned()
    assert [t.state for t in other.study.trials()] == [TrialState.RUNNING]


def test_one_trial_too_many_is_dropped_and_run_when_more_are_asked_for(queues):
    one, _ = queues("tpe", trials=2)
    for _ in range(3):
        one._add_running(0)
    assert one._reason_to_drop(one.study.trials(), 2, "tpe:2") is not None
    one.study.set_trial_attributes(2, dropped="surplus")
    one.study.finish(2, TrialState.FAIL)
    more, _ = queues("tpe", trials=3)
    more.requeue_abandoned()
    assert more.claim().config == "tpe:2"


def test_a_torn_line_is_cut_off(queues, tmp_path):
    one, _ = queues()
    finish(one, one.claim())
    journal = tmp_path / "journal.log"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code":8,"worker_id":"killed in the mid')
    two, _ = queues()
    finish(two, two.claim())
    assert journal.read_bytes().startswith(whole)
    three, _ = queues()
    three.refresh()
    assert three.counts() == (2, 0)
    optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))  # Optuna reads it too


def test_life_is_judged_by_the_process_here_and_by_the_beat_elsewhere(monkeypatch):
    monitor = heartbeat.HeartbeatMonitor()
    here = {"machine": heartbeat.machine_id(), "pid": os.getpid(), "started": heartbeat.start_time(os.getpid())}
    assert not monitor.is_dead("me", here)
    assert monitor.is_dead("another process under my number", {**here, "started": "1"})
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert monitor.is_dead("gone", {**here, "pid": gone.pid})
    there = {**here, "machine": "elsewhere"}
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    assert not monitor.is_dead("far", {**there, "beat": 1})
    now += 60
    assert not monitor.is_dead("far", {**there, "beat": 2})
    now += heartbeat._STALE_SECONDS + 1
    assert monitor.is_dead("far", {**there, "beat": 2})
    assert not monitor.is_dead("far", {**there, "beat": 3})


class FatalPool:
    """Every worker dies of its job."""

    job = None

    @property
    def free(self):
        return int(self.job is None)

    def submit(self, job, schedule):
        self.job = job

    def wait(self, timeout):
        lost, self.job = self.job, None
        return [Outcome(lost)]

    def close(self):
        pass


def test_a_configuration_that_kills_its_workers_fails_in_the_end(queues, tmp_path):
    one, _ = queues("random", trials=2)
    Dispatcher(one, FatalPool(), tmp_path / "frontier.json", None).run()
    assert one.counts() == (0, 2)
    errors = [t.user_attrs["error"] for t in one.study.trials() if "error" in t.user_attrs]
    assert errors == ["Its worker died. It was tried 3 times."] * 2
    assert len(one.study.trials()) == 6
