"""Runs the commands of `vispco paper` that are not done yet, with an estimate of the time that is left."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError, VispcoError
from vispco.core.runs import files
from vispco.evaluation.spec import EvaluatorSpec
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.report.paper.paper_page import write_paper
from vispco.report.paper.paper_steps import PaperSettings, Step, plan

_STATE = "steps.json"
_PROBE = 8  # items that are timed for the estimate, after as many that warm up


def run_paper(
    models: Sequence[ModelSpec], settings: PaperSettings, asked: TaskSpec, out: Path, tell: Callable[[str], None]
) -> Path:
    """Measure what is missing in `out` and write the page; returns its path. tell: is given a line before each step."""
    if len({each.short_name for each in models}) < len(models):
        raise InvalidInputError(
            "Two of the models have the same last name. Give each of them a folder of its own name."
        )
    files.check_writable(out / _STATE)
    asked.spec()  # refuses a file that is not there before the work begins
    work: list[tuple[Step, float]] = []
    done = _finished(out / _STATE)
    ended = [each["command"] for each in done]
    for each in models:
        loading = replace(each, name="")
        common = (*_given(asked, TaskSpec()), *_given(loading, ModelSpec("")))
        steps = plan(each.name, out / each.short_name, settings, common)
        left = [step for step in steps if list(step.command) not in ended]
        item = _seconds_per_item(each, asked) if left else 0.0
        work += [(step, step.passes * item) for step in left]
    seconds_left = sum(seconds for _, seconds in work)
    for number, (step, seconds) in enumerate(work, 1):
        tell(f"step {number} of {len(work)}: {step.label}; about {seconds_left / 60:.0f} minutes left in all")
        began, busy = time.perf_counter(), _busy()
        _run(step, out / "log.txt")
        times = {"seconds": time.perf_counter() - began, "processor_seconds": _busy() - busy}
        done.append({"command": list(step.command), **times})
        files.write_json(out / _STATE, done)
        seconds_left -= seconds
    return write_paper([(each.name, out / each.short_name) for each in models], out, done)


def _busy() -> float:
    """Seconds of processors that finished commands took."""
    times = os.times()
    return times.children_user + times.children_system


def _finished(path: Path) -> list[dict[str, Any]]:
    """Commands that an earlier run has finished, with their times; another file of that name is refused."""
    if not path.exists():
        return []
    found = files.read_json(path, what="list of steps")
    if not isinstance(found, list) or not all(isinstance(each, dict) and "command" in each for each in found):
        raise InvalidInputError(f"{path} is not the list of steps of vispco paper. Choose another folder with --out.")
    return found


def _run(step: Step, log: Path) -> None:
    """Run a command; its tables go to a log, its progress to the screen. A failure ends the paper with its sentence."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("a", encoding="utf-8") as file:
        ended = subprocess.run([sys.executable, "-m", "vispco", *step.command], stdout=file, check=False)  # noqa: S603
    if ended.returncode in (130, -2):
        raise KeyboardInterrupt
    if ended.returncode:
        raise VispcoError(
            f"The step '{step.label}' failed with exit code {ended.returncode}; its sentence stands above, its output in {log}. "
            "Run the same command again to continue from there."
        )


def _seconds_per_item(model: ModelSpec, asked: TaskSpec) -> float:
    """Seconds of an unpruned answer to one item on this machine."""
    evaluator = EvaluatorSpec(model=model, limit=1, batch_size=_PROBE, **asked.spec()).build()
    evaluator()
    began = time.perf_counter()
    evaluator()
    return (time.perf_counter() - began) / max(1, len(evaluator.samples))


def _given(spec: Any, default: Any) -> tuple[str, ...]:
    """Fields that differ from the default, as options of a command line."""
    words: list[str] = []
    for name in (each.name for each in fields(spec)):
        value = getattr(spec, name)
        if value != getattr(default, name) and value is not None:
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return tuple(words)
