"""The record of a sweep in an Optuna study: who runs what, what came of it, and what is still to be done."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from vispco.errors import InvalidInputError
from vispco.frontier import Axis, Frontier, Point
from vispco.sweep import trials as said
from vispco.sweep.heartbeat import Watch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.evaluation.result import Evaluation
    from vispco.schedule import Schedule
    from vispco.sweep.study import Book
    from vispco.sweep.sweep_plan import Plan

MAX_REACH = 16
MAX_DEATHS = 3  # a configuration that kills its worker this often is recorded as failed


@dataclass(frozen=True)
class Claim:
    """A configuration that is ours to evaluate."""

    number: int
    config: str
    schedule: Schedule


class Ledger:
    """One sweep process's view of the study; other processes, on other machines, may hold theirs on the same one."""

    def __init__(self, book: Book, plan: Plan, run: str, axis: Axis) -> None:
        self.book, self.plan, self.run, self.axis = book, plan, run, axis
        self._points: dict[int, Point | None] = {}
        self._watch = Watch()
        self._trials: list[FrozenTrial] = []
        self._reach = 1  # how far ahead to choose from: the next one; further, once others were faster

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset(self.plan.name(index) for index in range(self.plan.total))

    def claim(self) -> Claim | None:
        """The next configuration to run, now marked as ours; None when there is none at the moment."""
        while (taken := self._take()) is not None:
            number, trials = taken
            config = said.names(trials, self.plan)[number]
            why = self._superfluous(trials, number, config)
            if why is not None:
                self.book.note(number, **{said.DROPPED: why})
                self.book.finish(number, TrialState.FAIL)
                self._reach = min(2 * self._reach, MAX_REACH)
                continue
            claim = self._describe(number, config)
            known = self._known(claim)
            if known is None:
                return claim
            self.book.note(number, **{said.SAME_AS: known.provenance[said.CONFIG]})
            self.record(claim, known.evaluation)
        return None

    def record(self, claim: Claim, evaluation: Evaluation) -> None:
        """Enter a result (which is left out if someone thought us dead, and entered theirs)."""
        try:
            Point(claim.schedule, evaluation, {said.CONFIG: claim.config})
            json.dumps(evaluation.to_dict(), allow_nan=False)
            values = [self.axis.of(evaluation), evaluation.accuracy]
        except (InvalidInputError, TypeError, ValueError) as error:
            self.fail(claim, f"Its evaluation cannot be recorded: {error}")
            return
        self.book.note(claim.number, **{said.EVALUATION: evaluation.to_dict()})
        self.book.finish(claim.number, TrialState.COMPLETE, values)

    def fail(self, claim: Claim, error: str) -> None:
        """The configuration failed by its own fault: it is recorded, and not tried again."""
        self.book.note(claim.number, **{said.ERROR: error})
        self.book.finish(claim.number, TrialState.FAIL)

    def give_back(self, claim: Claim, why: str, *, died: bool) -> None:
        """We cannot finish it: queue it again; a configuration that keeps killing its workers fails instead."""
        trial = self.book.get(claim.number)
        deaths = said.deaths(trial) + died
        if deaths >= MAX_DEATHS:
            self.fail(claim, f"{why} It was tried {deaths} times.")
        else:
            self._again(trial, claim.config, why, deaths)

    def reclaim(self) -> None:
        """Queue again what sweeps that have died were running, and what was dropped for want of trials, then allowed."""
        trials = self.book.trials()
        called, pulses = said.names(trials, self.plan), None
        for trial in trials:
            if trial.state != TrialState.RUNNING or trial.user_attrs.get(said.RUN) == self.run:
                continue
            pulses = self.book.attributes() if pulses is None else pulses
            if self._watch.abandoned(trial.number, trial.user_attrs.get(said.RUN), pulses):
                self._again(trial, called[trial.number], "The sweep that ran it went away.", said.deaths(trial))
        idle = {called[t.number]: t for t in trials} | {called[t.number]: None for t in trials if not said.in_vain(t)}
        for config, last in idle.items():
            if last is not None and config in self._wanted:
                self._again(last, config, "", said.deaths(last))

    def refresh(self) -> None:
        """Look at the study again; `counts` and `frontier` tell what was seen."""
        self._trials = self.book.trials()

    def counts(self) -> tuple[int, int]:
        """Configurations of the plan that are done, and that failed."""
        done, failed = said.settled(self._trials, said.names(self._trials, self.plan))
        return len(done & self._wanted), len(failed & self._wanted)

    def frontier(self) -> Frontier:
        """All that this study has found so far."""
        for trial in self._trials:
            if trial.number not in self._points and trial.state.is_finished():
                self._points[trial.number] = said.point(trial, self.book.name)
        return Frontier((p for p in self._points.values() if p is not None), axis=self.axis)

    def _take(self) -> tuple[int, list[FrozenTrial]] | None:
        """Make a waiting trial ours (one step, whoever else tries), or a new one; and the study, up to it at least."""
        with self.book.store.transition():
            trials = self.book.trials()
            for trial in trials:
                waiting = trial.state == TrialState.WAITING and trial.user_attrs.get(said.CONFIG) in self._wanted
                if waiting and self.book.set_state(trial.number, TrialState.RUNNING):
                    self.book.note(trial.number, **{said.RUN: self.run})
                    return int(trial.number), trials
            known = set(said.names(trials, self.plan).values())
            left = [index for index in range(self.plan.total) if self.plan.name(index) not in known]
            if not left:
                return None
            return self._open(random.choice(left[: self._reach])), self.book.trials()  # noqa: S311  # no secret

    def _open(self, index: int) -> int:
        """Add a trial that is running, and ours, from its first moment: at a known configuration, or the sampler's next.

        Two processes may do so for one configuration; the rule of the lower number then decides (see `trials`).
        """
        if self.plan.fixed is None:
            return self.book.add(TrialState.RUNNING, {}, {}, {said.RUN: self.run})
        params = self.plan.fixed[index]
        distributions = {p.name: p.distribution for p in self.plan.space.parameters}
        schedule = self.plan.space.schedule(params).to_dict()
        attributes = {said.CONFIG: self.plan.name(index), said.ATTEMPT: 0, said.SCHEDULE: schedule, said.RUN: self.run}
        return self.book.add(TrialState.RUNNING, params, distributions, attributes)

    def _superfluous(self, trials: Sequence[FrozenTrial], number: int, config: str) -> str | None:
        """Why this trial must not be run; None when it must."""
        if config not in self._wanted:
            return "One more than was asked for: another sweep was faster."
        called, attempt = said.names(trials, self.plan), said.attempt(trials[number])
        rivals = [t for t in trials if called[t.number] == config and t.number != number]
        if any(said.attempt(t) == attempt and t.number < number for t in rivals):
            return "Another trial does this."
        for rival in rivals:
            if said.attempt(rival) < attempt and not rival.state.is_finished():
                self.book.note(rival.number, **{said.LOST: "Another attempt was started."})
                self.book.finish(rival.number, TrialState.FAIL)
        over = [self.book.get(t.number) for t in rivals]
        return "Settled meanwhile." if any(said.succeeded(t) or said.failed(t) for t in over) else None

    def _describe(self, number: int, config: str) -> Claim:
        index = int(config.rpartition(":")[2])
        if self.plan.fixed is not None:
            return Claim(number, config, self.plan.space.schedule(self.plan.fixed[index]))
        trial = self.book.sampled(number, self.plan.sampler(index))
        schedule = self.plan.space.schedule(self.plan.suggest(trial, index))
        self.book.note(number, **{said.CONFIG: config, said.SCHEDULE: schedule.to_dict()})
        return Claim(number, config, schedule)

    def _known(self, claim: Claim) -> Point | None:
        """Where a sampler comes upon a schedule again: the point that it was."""
        if self.plan.fixed is not None:
            return None
        self.refresh()
        return next((point for point in self.frontier() if point.schedule == claim.schedule), None)

    def _again(self, trial: FrozenTrial, config: str, why: str, deaths: int) -> None:
        """Queue first, then close: whoever dies between the two leaves a trial too many, never one too few."""
        kept = {key: trial.user_attrs[key] for key in (said.SCHEDULE,) if key in trial.user_attrs}
        attributes = {said.CONFIG: config, said.ATTEMPT: said.attempt(trial) + 1, said.DEATHS: deaths, **kept}
        # a sampler's own notes go along: NSGA-II keeps the generation there
        self.book.add(TrialState.WAITING, trial.params, trial.distributions, attributes, trial.system_attrs)
        self.book.note(trial.number, **{said.LOST: why})
        self.book.finish(trial.number, TrialState.FAIL)
