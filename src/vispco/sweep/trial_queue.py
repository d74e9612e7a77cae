"""The queue of a sweep in an Optuna study: which configuration is next, who evaluates it, and what the result was."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from vispco.core.errors import InvalidInputError
from vispco.evaluation.frontier import Axis, Frontier, Point
from vispco.sweep import trials
from vispco.sweep.heartbeat import HeartbeatMonitor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.core.schedule import Schedule
    from vispco.evaluation.result import Evaluation
    from vispco.sweep.study import SweepStudy
    from vispco.sweep.sweep_plan import SweepPlan

MAX_LOOKAHEAD = 16
MAX_DEATHS = 3  # a configuration whose worker dies this often is recorded as failed


@dataclass(frozen=True)
class Claim:
    """A configuration that this process evaluates; `number` is its trial's."""

    number: int
    config: str
    schedule: Schedule


class TrialQueue:
    """One process's view of the queue. Other processes, also on other machines, may work on the same study."""

    def __init__(self, study: SweepStudy, plan: SweepPlan, run: str, axis: Axis) -> None:
        self.study, self.plan, self.run, self.axis = study, plan, run, axis
        self._points: dict[int, Point | None] = {}
        self._monitor = HeartbeatMonitor()
        self._trials: list[FrozenTrial] = []
        self._lookahead = 1  # choose among so many next configurations; grows when other processes are faster

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset(self.plan.name(index) for index in range(self.plan.total))

    def claim(self) -> Claim | None:
        """Take the next configuration and mark it as ours; None if there is none at the moment."""
        while (taken := self._take()) is not None:
            number, study_trials = taken
            config = trials.configuration_names(study_trials, self.plan)[number]
            reason = self._reason_to_drop(study_trials, number, config)
            if reason is not None:
                self.study.set_trial_attributes(number, **{trials.DROPPED: reason})
                self.study.finish(number, TrialState.FAIL)
                self._lookahead = min(2 * self._lookahead, MAX_LOOKAHEAD)
                continue
            claim = self._make_claim(number, config)
            known = self._find_repeated(claim)
            if known is None:
                return claim
            self.study.set_trial_attributes(number, **{trials.SAME_AS: known.provenance[trials.CONFIG]})
            self.record(claim, known.evaluation)
        return None

    def record(self, claim: Claim, evaluation: Evaluation) -> None:
        """Record a result. It is ignored if another process took this one for dead and recorded its own."""
        try:
            Point(claim.schedule, evaluation, {trials.CONFIG: claim.config})
            json.dumps(evaluation.to_dict(), allow_nan=False)
            values = [self.axis.of(evaluation), evaluation.accuracy]
        except (InvalidInputError, TypeError, ValueError) as error:
            self.fail(claim, f"Its evaluation cannot be recorded: {error}")
            return
        self.study.set_trial_attributes(claim.number, **{trials.EVALUATION: evaluation.to_dict()})
        self.study.finish(claim.number, TrialState.COMPLETE, values)

    def fail(self, claim: Claim, error: str) -> None:
        """Record that the configuration itself failed. It is not tried again."""
        self.study.set_trial_attributes(claim.number, **{trials.ERROR: error})
        self.study.finish(claim.number, TrialState.FAIL)

    def requeue(self, claim: Claim, reason: str, *, died: bool) -> None:
        """Queue a claim again that cannot be finished. A configuration whose workers keep dying fails instead."""
        trial = self.study.trial(claim.number)
        deaths = trials.deaths(trial) + died
        if deaths >= MAX_DEATHS:
            self.fail(claim, f"{reason} It was tried {deaths} times.")
        else:
            self._queue_again(trial, claim.config, reason, deaths)

    def requeue_abandoned(self) -> None:
        """Queue again what dead sweeps were evaluating, and what was dropped but is wanted now (more `trials`)."""
        study_trials = self.study.trials()
        names, heartbeats = trials.configuration_names(study_trials, self.plan), None
        for trial in study_trials:
            if trial.state != TrialState.RUNNING or trial.user_attrs.get(trials.RUN) == self.run:
                continue
            heartbeats = self.study.attributes() if heartbeats is None else heartbeats
            if self._monitor.is_abandoned(trial.number, trial.user_attrs.get(trials.RUN), heartbeats):
                self._queue_again(trial, names[trial.number], "The sweep that ran it went away.", trials.deaths(trial))
        idle = {names[trial.number]: trial for trial in study_trials}
        idle |= {names[trial.number]: None for trial in study_trials if not trials.ended_without_result(trial)}
        for config, last in idle.items():
            if last is not None and config in self._wanted:
                self._queue_again(last, config, "", trials.deaths(last))

    def refresh(self) -> None:
        """Read the study again. `counts` and `frontier` describe what was read last."""
        self._trials = self.study.trials()

    def counts(self) -> tuple[int, int]:
        """Return how many configurations of the plan are done and how many failed."""
        done, failed = trials.settled(self._trials, trials.configuration_names(self._trials, self.plan))
        return len(done & self._wanted), len(failed & self._wanted)

    def frontier(self) -> Frontier:
        """Return all results of this study."""
        for trial in self._trials:
            if trial.number not in self._points and trial.state.is_finished():
                self._points[trial.number] = trials.to_point(trial, self.study.name)
        return Frontier((p for p in self._points.values() if p is not None), axis=self.axis)

    def _take(self) -> tuple[int, list[FrozenTrial]] | None:
        """Take a waiting trial in one step, or add a new one. Return its number and the trials up to it at least."""
        with self.study.storage.state_lock():
            study_trials = self.study.trials()
            for trial in study_trials:
                waiting = trial.state == TrialState.WAITING and trial.user_attrs.get(trials.CONFIG) in self._wanted
                if waiting and self.study.set_state(trial.number, TrialState.RUNNING):
                    self.study.set_trial_attributes(trial.number, **{trials.RUN: self.run})
                    return int(trial.number), study_trials
            known = set(trials.configuration_names(study_trials, self.plan).values())
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
            return self.study.add_trial(TrialState.RUNNING, {}, {}, {trials.RUN: self.run})
        params = self.plan.fixed[index]
        distributions = {p.name: p.distribution for p in self.plan.space.parameters}
        schedule = self.plan.space.schedule(params).to_dict()
        attributes = {
            trials.CONFIG: self.plan.name(index),
            trials.ATTEMPT: 0,
            trials.SCHEDULE: schedule,
            trials.RUN: self.run,
        }
        return self.study.add_trial(TrialState.RUNNING, params, distributions, attributes)

    def _reason_to_drop(self, study_trials: Sequence[FrozenTrial], number: int, config: str) -> str | None:
        """Return why this trial must not be evaluated; None if it must."""
        if config not in self._wanted:
            return "One more than was asked for: another sweep was faster."
        names, attempt = trials.configuration_names(study_trials, self.plan), trials.attempt(study_trials[number])
        others = [trial for trial in study_trials if names[trial.number] == config and trial.number != number]
        if any(trials.attempt(other) == attempt and other.number < number for other in others):
            return "Another trial does this."
        for other in others:
            if trials.attempt(other) < attempt and not other.state.is_finished():
                self.study.set_trial_attributes(other.number, **{trials.LOST: "Another attempt was started."})
                self.study.finish(other.number, TrialState.FAIL)
        now = [self.study.trial(other.number) for other in others]
        return "Settled meanwhile." if any(trials.succeeded(trial) or trials.failed(trial) for trial in now) else None

    def _make_claim(self, number: int, config: str) -> Claim:
        index = int(config.rpartition(":")[2])
        if self.plan.fixed is not None:
            return Claim(number, config, self.plan.space.schedule(self.plan.fixed[index]))
        trial = self.study.sampler_trial(number, self.plan.sampler(index))
        schedule = self.plan.space.schedule(self.plan.suggest(trial, index))
        self.study.set_trial_attributes(number, **{trials.CONFIG: config, trials.SCHEDULE: schedule.to_dict()})
        return Claim(number, config, schedule)

    def _find_repeated(self, claim: Claim) -> Point | None:
        """Return the known point of a schedule that a sampler suggests again, None if it is new."""
        if self.plan.fixed is not None:
            return None
        self.refresh()
        return next((point for point in self.frontier() if point.schedule == claim.schedule), None)

    def _queue_again(self, trial: FrozenTrial, config: str, reason: str, deaths: int) -> None:
        """Add the new trial first, then end the old one: a process that dies in between leaves one too many, not none."""
        kept = {key: trial.user_attrs[key] for key in (trials.SCHEDULE,) if key in trial.user_attrs}
        attributes = {trials.CONFIG: config, trials.ATTEMPT: trials.attempt(trial) + 1, trials.DEATHS: deaths, **kept}
        # NSGA-II keeps the generation in the system attributes
        self.study.add_trial(TrialState.WAITING, trial.params, trial.distributions, attributes, trial.system_attrs)
        self.study.set_trial_attributes(trial.number, **{trials.LOST: reason})
        self.study.finish(trial.number, TrialState.FAIL)
