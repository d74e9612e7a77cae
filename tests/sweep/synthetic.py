"""An evaluator that needs no model: accuracy and cost are functions of the schedule, and every call is written down."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING

from vispco import sweep
from vispco.evaluation import Evaluation, TaskResult

if TYPE_CHECKING:
    from vispco.core.schedule import Schedule

LAYERS = 6


def run_sweep(factory, **options):
    """`sweep.run` with the fields of its `SweepSpec` among the options, so that a test names only what it is about."""
    names = {field.name for field in fields(sweep.SweepSpec)}
    spec = sweep.SweepSpec(**{name: value for name, value in options.items() if name in names})
    rest = {name: value for name, value in options.items() if name not in names}
    return sweep.run(factory, spec, **rest)


def fraction(schedule: Schedule) -> float:
    """A cost with a floor of 0.1 for text, as a real model has."""
    return 0.1 + 0.9 * sum(schedule.retention) / len(schedule.retention)


def accuracy(schedule: Schedule) -> float:
    """Early pruning hurts more than late pruning."""
    kept = schedule.retention
    lost = sum((1 - r) ** 2 * (len(kept) - i) for i, r in enumerate(kept))
    return max(0.0, 1.0 - lost / len(kept) ** 2)


@dataclass(frozen=True)
class Factory:
    """Makes the evaluator. `log` gets a line per evaluation; the others name a keep ratio at which something happens."""

    log: str
    delay: float = 0.0
    fails_at: float | None = None
    nan_at: float | None = None
    dies_at: float | None = None
    dies_always: bool = False
    interrupts_at: int | None = None
    pids: bool = False

    def __call__(self) -> Factory.Evaluator:
        return Factory.Evaluator(self)

    @dataclass(frozen=True)
    class Evaluator:
        plan: Factory

        def __call__(self, schedule: Schedule) -> Evaluation:
            plan, keep = self.plan, schedule.retention[-1]
            lines = evaluated(plan.log)
            with Path(plan.log).open("a", encoding="ascii") as file:
                file.write(f"{schedule.retention}\n")
            if plan.pids:
                with Path(plan.log + ".pids").open("a", encoding="ascii") as file:
                    file.write(f"{os.getpid()}\n")
            time.sleep(plan.delay)
            if plan.interrupts_at is not None and len(lines) == plan.interrupts_at:
                raise KeyboardInterrupt
            if plan.fails_at == keep:
                raise ZeroDivisionError(f"no such number as {keep}")
            if plan.dies_at == keep and (plan.dies_always or lines.count(str(schedule.retention)) == 0):
                os.kill(os.getpid(), signal.SIGKILL)
            right = float("nan") if plan.nan_at == keep else accuracy(schedule)
            share = fraction(schedule)
            task = TaskResult("synthetic", right, right, right, 100)
            return Evaluation((task,), right, right, right, {"exact": share * 1e9}, {"exact": share}, seconds=0.5)


def evaluated(log: str | Path) -> list[str]:
    """The schedules that were evaluated, in order, repetitions and all."""
    path = Path(log)
    return path.read_text(encoding="ascii").splitlines() if path.exists() else []
