"""The small print of "exactly once": torn journals, dead sweeps, rivals for one configuration."""

from __future__ import annotations

import os
import subprocess
import sys

import optuna
import pytest
from optuna.trial import TrialState

from sweep.synthetic import LAYERS, Factory
from vispco.frontier import Axis
from vispco.sweep import heartbeat as liveness
from vispco.sweep import spaces
from vispco.sweep import sweep_plan as plan
from vispco.sweep import trials as said
from vispco.sweep.dispatcher import Dispatch
from vispco.sweep.heartbeat import PULSE
from vispco.sweep.storage import open_store
from vispco.sweep.study import Book, open_study
from vispco.sweep.trial_queue import Ledger
from vispco.sweep.workers.worker_pool import Outcome


@pytest.fixture
def ledgers(tmp_path):
    """Views of one study as two sweeps have them, each through a storage of its own."""

    def make(strategy="grid", trials=None, storage=None):
        def one(run):
            store = open_store(storage, tmp_path)
            wanted = plan.make(strategy, spaces.get("single", LAYERS), trials=trials, seed=0)
            return Ledger(Book(open_study(store, "study", {"space": "single"}), store), wanted, run, Axis())

        return one("a"), one("b")

    return make


def finish(ledger, claim):
    ledger.record(claim, Factory(os.devnull)()(claim.schedule))


@pytest.mark.parametrize("storage", [None, "sqlite"])
def test_claims_do_not_meet(ledgers, tmp_path, storage):
    one, other = ledgers(storage=storage and f"sqlite:///{tmp_path}/study.db")
    assert [ledger.claim().config for ledger in (one, other, one, other)] == ["grid:0", "grid:1", "grid:2", "grid:3"]


def test_of_two_trials_for_one_configuration_the_lower_number_counts(ledgers, monkeypatch):
    """Both look at the study before either writes: the race that a check before a claim loses."""
    one, other = ledgers()
    stale = other.book.trials()
    first = one.claim()
    monkeypatch.setattr(other.book, "trials", iter([stale]).__next__)  # `other` has not seen it yet
    with pytest.raises(StopIteration):
        other.claim()
    monkeypatch.undo()
    assert [said.names(one.book.trials(), one.plan)[n] for n in (0, 1)] == ["grid:0", "grid:0"]
    assert other._superfluous(other.book.trials(), 1, "grid:0") == "Another trial does this."
    assert one._superfluous(one.book.trials(), first.number, "grid:0") is None


def test_what_a_sweep_that_ended_was_running_is_queued_again_once(ledgers):
    one, other = ledgers()
    lost = one.claim()
    other.book.say(PULSE + "a", {"ended": True})
    other.reclaim()
    other.reclaim()
    again = other.claim()
    assert (again.config, again.schedule) == (lost.config, lost.schedule)
    assert other.claim().config == "grid:1"
    finish(one, lost)  # it was alive after all, and is too late
    finish(other, again)
    other.refresh()
    assert other.counts() == (1, 0)
    assert len(other.frontier()) == 1


def test_a_sweep_that_was_thought_dead_and_finishes_in_time_is_believed(ledgers):
    one, other = ledgers()
    slow = one.claim()
    other.book.say(PULSE + "a", {"ended": True})
    orphan = other.book.trials()[0]
    other.book.add(TrialState.WAITING, orphan.params, orphan.distributions, {"config": "grid:0", "attempt": 1})
    finish(one, slow)
    assert other.claim().config in {"grid:1", "grid:2"}, "the second attempt is dropped, and the next looks further"


def test_a_living_sweep_is_left_alone(ledgers):
    one, other = ledgers()
    one.claim()
    with liveness.Pulse(lambda run, record: other.book.say(PULSE + "a", record)):
        other.reclaim()
    assert [t.state for t in other.book.trials()] == [TrialState.RUNNING]


def test_one_trial_too_many_is_dropped_and_run_when_more_are_asked_for(ledgers):
    one, _ = ledgers("tpe", trials=2)
    for _ in range(3):
        one._open(0)
    assert one._superfluous(one.book.trials(), 2, "tpe:2") is not None
    one.book.note(2, dropped="surplus")
    one.book.finish(2, TrialState.FAIL)
    more, _ = ledgers("tpe", trials=3)
    more.reclaim()
    assert more.claim().config == "tpe:2"


def test_a_torn_line_is_cut_off(ledgers, tmp_path):
    one, _ = ledgers()
    finish(one, one.claim())
    journal = tmp_path / "journal.log"
    whole = journal.read_bytes()
    journal.write_bytes(whole + b'{"op_code":8,"worker_id":"killed in the mid')
    two, _ = ledgers()
    finish(two, two.claim())
    assert journal.read_bytes().startswith(whole)
    three, _ = ledgers()
    three.refresh()
    assert three.counts() == (2, 0)
    optuna.storages.JournalStorage(optuna.storages.journal.JournalFileBackend(str(journal)))  # Optuna reads it too


def test_life_is_judged_by_the_process_here_and_by_the_beat_elsewhere(monkeypatch):
    watch = liveness.Watch()
    here = {"machine": liveness.machine(), "pid": os.getpid(), "started": liveness.started(os.getpid())}
    assert not watch.dead("me", here)
    assert watch.dead("another process under my number", {**here, "started": "1"})
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert watch.dead("gone", {**here, "pid": gone.pid})
    there = {**here, "machine": "elsewhere"}
    now = 1000.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    assert not watch.dead("far", {**there, "beat": 1})
    now += 60
    assert not watch.dead("far", {**there, "beat": 2})
    now += liveness.STALE + 1
    assert watch.dead("far", {**there, "beat": 2})
    assert not watch.dead("far", {**there, "beat": 3})


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


def test_a_configuration_that_kills_its_workers_fails_in_the_end(ledgers, tmp_path):
    one, _ = ledgers("random", trials=2)
    Dispatch(one, FatalPool(), tmp_path / "frontier.json", None).run()
    assert one.counts() == (0, 2)
    errors = [t.user_attrs["error"] for t in one.book.trials() if "error" in t.user_attrs]
    assert errors == ["Its worker died. It was tried 3 times."] * 2
    assert len(one.book.trials()) == 6
