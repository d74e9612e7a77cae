"""What the attributes of an Optuna trial say: which configuration it is an attempt at, and how that ended.

A configuration has several trials if a worker died: one for each attempt. Each configuration is still evaluated exactly
once, with any number of processes and without a lock. This needs only that trial numbers are unique, grow and never
change:

- Of two trials for the same attempt at a configuration, the one with the lower number counts; the other is dropped.
- An attempt runs only when all earlier attempts have ended without a result and without an error of the configuration.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from optuna.trial import FrozenTrial, TrialState

from vispco.core.schedule import Schedule
from vispco.evaluation.frontier import Point
from vispco.evaluation.result import Evaluation

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vispco.sweep.sweep_plan import SweepPlan

CONFIG = "config"  # STRATEGY:INDEX
ATTEMPT = "attempt"  # 0, 1, ...; a trial that a sampler made has none: it is attempt 0
DEATHS = "deaths"  # how many workers died while they evaluated this configuration
RUN = "run"  # the sweep process that evaluates it
SCHEDULE = "schedule"
EVALUATION = "evaluation"
ERROR = "error"  # the configuration itself failed: it is not tried again
LOST = "lost"  # its worker or sweep died: another attempt was queued
DROPPED = "dropped"  # not needed: nothing was evaluated
SAME_AS = "same_as"  # a sampler repeated a schedule; the evaluation is that of this other configuration


def configuration_names(trials: Sequence[FrozenTrial], plan: SweepPlan) -> dict[int, str]:
    """Map trial numbers to configurations. A trial that a sampler made is numbered among the trials of samplers."""
    names: dict[int, str] = {}
    rank = 0
    for trial in trials:
        if ATTEMPT in trial.user_attrs:
            names[trial.number] = str(trial.user_attrs[CONFIG])
        else:
            names[trial.number] = plan.name(rank) if plan.fixed is None else f"foreign:{rank}"
            rank += 1
    return names


def attempt(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(ATTEMPT, 0))


def deaths(trial: FrozenTrial) -> int:
    return int(trial.user_attrs.get(DEATHS, 0))


def succeeded(trial: FrozenTrial) -> bool:
    """Whether the trial has a whole result. A damaged line of the journal may have held a part of it."""
    return bool(trial.state == TrialState.COMPLETE and {CONFIG, SCHEDULE, EVALUATION} <= trial.user_attrs.keys())


def failed(trial: FrozenTrial) -> bool:
    """Whether the configuration itself failed, so that it is not tried again."""
    return bool(trial.state == TrialState.FAIL and ERROR in trial.user_attrs and LOST not in trial.user_attrs)


def ended_without_result(trial: FrozenTrial) -> bool:
    return bool(trial.state.is_finished() and not succeeded(trial) and not failed(trial))


def settled(trials: Iterable[FrozenTrial], names: dict[int, str]) -> tuple[set[str], set[str]]:
    """Return the configurations that are done and those that failed."""
    done, errors = set(), set()
    for trial in trials:
        if succeeded(trial):
            done.add(names[trial.number])
        elif failed(trial):
            errors.add(names[trial.number])
    return done, errors - done


def to_point(trial: FrozenTrial, study: str) -> Point | None:
    """Return the frontier point of a finished trial, None if it has none.

    The provenance holds neither the number nor the time of the trial: a killed and continued sweep has equal points.
    """
    attributes = trial.user_attrs
    if not succeeded(trial) or SAME_AS in attributes:
        return None
    provenance = {"study": study, CONFIG: attributes[CONFIG]}
    return Point(Schedule.from_dict(attributes[SCHEDULE]), Evaluation.from_dict(attributes[EVALUATION]), provenance)
