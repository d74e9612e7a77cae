"""The queue of a sweep in an Optuna study: which configuration is next, who evaluates it, and what the result was.

A configuration has several trials if a worker died: one for each attempt. Each configuration is still evaluated exactly
once, with any number of processes and without a lock. This needs only that trial numbers are unique, grow and never
change:

- Of two trials for the same attempt at a configuration, the one with the lower number counts; the other is dropped.
- An attempt runs only when all earlier attempts have ended without a result and without an error of the configuration.
"""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from optuna.trial import FrozenTrial, TrialState

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.evaluation.frontier import Axis, Frontier, Point
from vispco.evaluation.result import Evaluation
from vispco.sweep.heartbeat import HeartbeatMonitor
from vispco.sweep.spec import SweepPlan
from vispco.sweep.study import SweepStudy

_CONFIG = "config"  # STRATEGY:INDEX
_ATTEMPT = "attempt"  # 0, 1, ...; a trial that a sampler made has none: it is attempt 0
_DEATHS = "deaths"  # how many workers died while they evaluated this configuration
_RUN = "run"  # the sweep process that evaluates it
_SCHEDULE = "schedule"
_EVALUATION = "evaluation"
ERROR = "error"  # the configuration itself failed: it is not tried again
_LOST = "lost"  # its worker or sweep died: another attempt was queued
_DROPPED = "dropped"  # not needed: nothing was evaluated
_SAME_AS = "same_as"  # a sampler repeated a schedule; the evaluation is that of this other configuration


def _configuration_names(trials: Sequence[FrozenTrial], plan: SweepPlan) -> dict[int, str]:
    """Map trial numbers to configurations. A trial that a sampler made is numbered among the trials of samplers."""
    names: dict[int, str] = {}
    rank = 0
    for trial in trials:
        if _ATTEMPT in trial.user_attrs:
            names[trial.number] = str(trial.user_attrs[_CONFIG])
        else:
            names[trial.number] = plan.name(rank) if plan.fixed is None else f"foreign:{rank}"
            rank += 1
    return names


def _attempt_of(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(_ATTEMPT, 0))


def _deaths_of(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(_DEATHS, 0))


def _succeeded(trial: FrozenTrial) -> bool:
    """Whether the trial has a whole result. A damaged line of the journal may have held a part of it."""
    return bool(trial.state == TrialState.COMPLETE and {_CONFIG, _SCHEDULE, _EVALUATION} <= trial.user_attrs.keys())


def failed(trial: FrozenTrial) -> bool:
    """Whether the configuration itself failed, so that it is not tried again."""
    return bool(trial.state == TrialState.FAIL and ERROR in trial.user_attrs and _LOST not in trial.user_attrs)


_MAX_LOOKAHEAD = 16
_MAX_DEATHS = 3  # a configuration whose worker dies this often is recorded as failed


@dataclass(frozen=True)
class Claim:
    """A configuration that this process evaluates; `number` is its trial's."""

    number: int
    config: str
    schedule: Schedule


class TrialQueue:
    """One process's view of the queue. Other processes, also on other machines, may work on the same study."""

    def __init__(self, study: SweepStudy, plan: SweepPlan, run: str) -> None:
        self.study, self.plan, self.run = study, plan, run
        self._points: dict[int, Point] = {}
        self._monitor = HeartbeatMonitor()
        self._trials: list[FrozenTrial] = []
        self._lookahead = 1  # number of next configurations to choose among; grows when other processes are faster

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset(self.plan.name(index) for index in range(self.plan.total))

    def claim(self) -> Claim | None:
        """Take the next configuration and mark it as ours; None if there is none at the moment."""
        while (taken := self._take()) is not None:
            number, study_trials = taken
            config = _configuration_names(study_trials, self.plan)[number]
            reason = self._reason_to_drop(study_trials, number, config)
            if reason is not None:
                self.study.set_trial_attributes(number, **{_DROPPED: reason})
                self.study.finish(number, TrialState.FAIL)
                self._lookahead = min(2 * self._lookahead, _MAX_LOOKAHEAD)
                continue
            claim = self._make_claim(number, config)
            if self.plan.fixed is not None:
                return claim
            self.refresh()  # a sampler may suggest a schedule again
            known = next((point for point in self.frontier() if point.schedule == claim.schedule), None)
            if known is None:
                return claim
            self.study.set_trial_attributes(number, **{_SAME_AS: known.provenance[_CONFIG]})
            self.record(claim, known.evaluation)
        return None

    def record(self, claim: Claim, evaluation: Evaluation) -> None:
        """Record a result. It is ignored if another process took this one for dead and recorded its own."""
        try:
            Point(claim.schedule, evaluation, {_CONFIG: claim.config})
            json.dumps(evaluation.to_dict(), allow_nan=False)
            values = [Axis().of(evaluation), evaluation.accuracy]
        except (InvalidInputError, TypeError, ValueError) as error:
            self.fail(claim, f"Its evaluation cannot be recorded: {error}")
            return
        self.study.set_trial_attributes(claim.number, **{_EVALUATION: evaluation.to_dict()})
        self.study.finish(claim.number, TrialState.COMPLETE, values)

    def fail(self, claim: Claim, error: str) -> None:
        """Record that the configuration itself failed. It is not tried again."""
        self.study.set_trial_attributes(claim.number, **{ERROR: error})
        self.study.finish(claim.number, TrialState.FAIL)

    def requeue(self, claim: Claim, reason: str, *, died: bool) -> None:
        """Queue a claim again that cannot be finished. A configuration whose workers keep dying fails instead."""
        trial = self.study.trial(claim.number)
        deaths = _deaths_of(trial) + died
        if deaths >= _MAX_DEATHS:
            self.fail(claim, f"{reason} It was tried {deaths} times.")
        else:
            self._queue_again(trial, claim.config, reason, deaths)

    def requeue_abandoned(self) -> None:
        """Queue again what dead sweeps were evaluating, and what was dropped but is wanted now (more `trials`)."""
        study_trials = self.study.trials()
        names, heartbeats = _configuration_names(study_trials, self.plan), None
        for trial in study_trials:
            if trial.state != TrialState.RUNNING or trial.user_attrs.get(_RUN) == self.run:
                continue
            heartbeats = self.study.attributes() if heartbeats is None else heartbeats
            if self._monitor.is_abandoned(trial.number, trial.user_attrs.get(_RUN), heartbeats):
                self._queue_again(trial, names[trial.number], "The sweep that ran it went away.", _deaths_of(trial))
        idle = {names[trial.number]: trial for trial in study_trials}
        idle |= {
            names[trial.number]: None
            for trial in study_trials
            if not trial.state.is_finished() or _succeeded(trial) or failed(trial)
        }
        for config, last in idle.items():
            if last is not None and config in self._wanted:
                self._queue_again(last, config, "", _deaths_of(last))

    def refresh(self) -> None:
        """Read the study again. `counts` and `frontier` describe what was read last."""
        self._trials = self.study.trials()

    def counts(self) -> tuple[int, int]:
        """Return how many configurations of the plan are done and how many failed."""
        names = _configuration_names(self._trials, self.plan)
        done = {names[trial.number] for trial in self._trials if _succeeded(trial)} & self._wanted
        errors = {names[trial.number] for trial in self._trials if failed(trial)} & self._wanted
        return len(done), len(errors - done)

    def frontier(self) -> Frontier:
        """Return all results of this study.

        The provenance holds neither the number nor the time of a trial: a killed and continued sweep has equal points.
        """
        for trial in self._trials:
            if trial.number in self._points or not _succeeded(trial) or _SAME_AS in trial.user_attrs:
                continue
            schedule, evaluation = (trial.user_attrs[name] for name in (_SCHEDULE, _EVALUATION))
            provenance = {"study": self.study.name, _CONFIG: trial.user_attrs[_CONFIG]}
            self._points[trial.number] = Point(
                Schedule.from_dict(schedule), Evaluation.from_dict(evaluation), provenance
            )
        return Frontier(self._points.values())

    def _take(self) -> tuple[int, list[FrozenTrial]] | None:
        """Take a waiting trial in one step, or add a new one. Return its number and the trials up to it at least."""
        with self.study.storage.state_lock():
            study_trials = self.study.trials()
            for trial in study_trials:
                waiting = trial.state == TrialState.WAITING and trial.user_attrs.get(_CONFIG) in self._wanted
                if waiting and self.study.set_state(trial.number, TrialState.RUNNING):
                    self.study.set_trial_attributes(trial.number, **{_RUN: self.run})
                    return int(trial.number), study_trials
            known = set(_configuration_names(study_trials, self.plan).values())
            left = [index for index in range(self.plan.total) if self.plan.name(index) not in known]
            if not left:
                return None
            index = random.choice(left[: self._lookahead])  # noqa: S311  # not used for security
            return self._add_running(index), self.study.trials()

    def _add_running(self, index: int) -> int:
        """Add a running trial for configuration `index`, or for whatever a sampler suggests next; return its number.

        Two processes may do so for one configuration. The lower number then counts (see `trials`).
        """
        if self.plan.fixed is None:
            return self.study.add_trial(TrialState.RUNNING, {}, {}, {_RUN: self.run})
        params = self.plan.fixed[index]
        distributions = {p.name: p.distribution for p in self.plan.space.parameters}
        schedule = self.plan.space.schedule(params).to_dict()
        attributes = {_CONFIG: self.plan.name(index), _ATTEMPT: 0, _SCHEDULE: schedule, _RUN: self.run}
        return self.study.add_trial(TrialState.RUNNING, params, distributions, attributes)

    def _reason_to_drop(self, study_trials: Sequence[FrozenTrial], number: int, config: str) -> str | None:
        """Return why this trial must not be evaluated; None if it must."""
        if config not in self._wanted:
            return "One more than was asked for: another sweep was faster."
        names, attempt = _configuration_names(study_trials, self.plan), _attempt_of(study_trials[number])
        others = [trial for trial in study_trials if names[trial.number] == config and trial.number != number]
        if any(_attempt_of(other) == attempt and other.number < number for other in others):
            return "Another trial does this."
        for other in others:
            if _attempt_of(other) < attempt and not other.state.is_finished():
                self.study.set_trial_attributes(other.number, **{_LOST: "Another attempt was started."})
                self.study.finish(other.number, TrialState.FAIL)
        now = [self.study.trial(other.number) for other in others]
        return "Settled meanwhile." if any(_succeeded(trial) or failed(trial) for trial in now) else None

    def _make_claim(self, number: int, config: str) -> Claim:
        index = int(config.rpartition(":")[2])
        if self.plan.fixed is not None:
            return Claim(number, config, self.plan.space.schedule(self.plan.fixed[index]))
        trial = self.study.sampler_trial(number, self.plan.sampler(index))
        schedule = self.plan.space.schedule(self.plan.suggest(trial, index))
        self.study.set_trial_attributes(number, **{_CONFIG: config, _SCHEDULE: schedule.to_dict()})
        return Claim(number, config, schedule)

    def _queue_again(self, trial: FrozenTrial, config: str, reason: str, deaths: int) -> None:
        """Add the new trial first, then end the old one: a process that dies in between leaves one too many, not none."""
        kept = {key: trial.user_attrs[key] for key in (_SCHEDULE,) if key in trial.user_attrs}
        attributes = {_CONFIG: config, _ATTEMPT: _attempt_of(trial) + 1, _DEATHS: deaths, **kept}
        # NSGA-II keeps the generation in the system attributes
        self.study.add_trial(TrialState.WAITING, trial.params, trial.distributions, attributes, trial.system_attrs)
        self.study.set_trial_attributes(trial.number, **{_LOST: reason})
        self.study.finish(trial.number, TrialState.FAIL)
