"""What an Optuna trial of a sweep says: which configuration it is an attempt at, and how that went.

A configuration may have several trials: one per attempt, when a worker died. The rules that make "exactly once" hold
whatever the number of processes need no lock of their own, only that trial numbers are unique, grow and never change:

- of two trials for the same attempt at a configuration, the one with the lower number counts, the other is dropped;
- an attempt is only run once all earlier ones are over, and none of them succeeded or failed by its own fault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from vispco.evaluation.result import Evaluation
from vispco.frontier import Point
from vispco.schedule import Schedule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vispco.sweep.sweep_plan import Plan

CONFIG = "config"  # STRATEGY:INDEX
ATTEMPT = "attempt"  # 0, 1, ...; a trial that a sampler made has none, and is attempt 0
DEATHS = "deaths"  # of workers, at this configuration
RUN = "run"  # the sweep process that runs it
SCHEDULE = "schedule"
EVALUATION = "evaluation"
ERROR = "error"  # failed by its own fault: it is not tried again
LOST = "lost"  # its worker or sweep went away: another attempt was queued
DROPPED = "dropped"  # superfluous: nothing was run
SAME_AS = "same_as"  # a sampler came upon a schedule again; the evaluation is that of this other configuration


def names(trials: Sequence[FrozenTrial], plan: Plan) -> dict[int, str]:
    """Trial number -> configuration. A trial that a sampler made is called after its rank among its like."""
    called: dict[int, str] = {}
    rank = 0
    for trial in trials:
        if ATTEMPT in trial.user_attrs:
            called[trial.number] = str(trial.user_attrs[CONFIG])
        else:
            called[trial.number] = plan.name(rank) if plan.fixed is None else f"foreign:{rank}"
            rank += 1
    return called


def attempt(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(ATTEMPT, 0))


def deaths(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(DEATHS, 0))


def succeeded(trial: FrozenTrial) -> bool:
    return bool(trial.state == TrialState.COMPLETE)


def failed(trial: FrozenTrial) -> bool:
    """By its own fault, and for good."""
    return bool(trial.state == TrialState.FAIL and ERROR in trial.user_attrs and LOST not in trial.user_attrs)


def in_vain(trial: FrozenTrial) -> bool:
    """Over, without having settled its configuration."""
    return bool(trial.state.is_finished() and not succeeded(trial) and not failed(trial))


def settled(trials: Iterable[FrozenTrial], called: dict[int, str]) -> tuple[set[str], set[str]]:
    """The configurations that are done, and those that failed."""
    done, errors = set(), set()
    for trial in trials:
        if succeeded(trial):
            done.add(called[trial.number])
        elif failed(trial):
            errors.add(called[trial.number])
    return done, errors - done


def point(trial: FrozenTrial, study: str) -> Point | None:
    """What a finished trial adds to the frontier.

    Its provenance names neither the trial's number nor its time: a sweep that was killed ends with the same points.
    """
    said = trial.user_attrs
    if not succeeded(trial) or EVALUATION not in said or SAME_AS in said:
        return None
    provenance = {"study": study, CONFIG: said[CONFIG]}
    return Point(Schedule.from_dict(said[SCHEDULE]), Evaluation.from_dict(said[EVALUATION]), provenance)
