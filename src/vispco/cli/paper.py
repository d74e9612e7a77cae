"""`vispco paper`: every table and figure of the paper for any model, by the commands that exist."""

import subprocess
import sys
import time
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Annotated, Any

import typer

from vispco.cli.console import say, show
from vispco.cli.options import AsJson, spread
from vispco.core.errors import InvalidInputError, VispcoError, needs_extra
from vispco.core.runs import files
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec

_STATE = "steps.json"
_PROBE = 8  # items that are timed for the estimate, after as many that warm up


@dataclass(frozen=True, kw_only=True)
class _PaperOptions:
    """How much is measured."""

    test: Annotated[int, typer.Option(min=1, help="Test items of each task.")] = 16
    draws: Annotated[int, typer.Option(min=2, help="Sampled configurations of each method and budget.")] = 5
    trials: Annotated[int | None, typer.Option(min=1, help="Draw so many configurations of the grid [all]")] = None
    samples: Annotated[int | None, typer.Option(min=1, help="Calibration items [by search]")] = None
    data: Annotated[Path | None, typer.Option(help="Calibration data for the searches, as in vispco search.")] = None
    images: Annotated[Path | None, typer.Option(help="The folder of its pictures.")] = None
    seed: Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")] = 0


@spread
def paper(
    model: ModelSpec,
    others: Annotated[list[str] | None, typer.Argument(help="Further models, side by side (Table 3).")] = None,
    *,
    options: _PaperOptions,
    asked: TaskSpec,
    out: Annotated[Path, typer.Option(help="The folder to write to; paper.html is in it.")] = Path("runs/paper"),
    json: AsJson = False,
) -> None:
    """Every table and figure of the VisPCO paper, measured on your model.

    Runs sweep, compare, search and bench one after the other, and writes paper.html, .json, .tex and .csv. The same command
    continues what was stopped. On tiny-qwen it takes about half an hour of one core.

    Examples:

        vispco paper tiny-qwen --out runs/paper

        vispco paper tiny-qwen tiny-llava --out runs/both
    """
    from vispco.report.paper import PaperSettings, Step, plan, write_paper  # noqa: PLC0415

    for what, extra, module in (("Figures", "plots", "matplotlib"), ("The grid", "search", "optuna")):
        with needs_extra(f"{what} of vispco paper need {module}", extra):
            __import__(module)
    models = [replace(model, name=name) for name in dict.fromkeys((model.name, *(others or ())))]
    if len({each.short_name for each in models}) < len(models):
        raise InvalidInputError(
            "Two of the models have the same last name. Give each of them a folder of its own name."
        )
    files.check_writable(out / _STATE)
    asked.spec()  # refuses a file that is not there before the work begins
    settings = PaperSettings(
        test=options.test, draws=options.draws, trials=options.trials, samples=options.samples, seed=options.seed
    )
    data = _arguments({"data": options.data, "images": options.images})
    work: list[tuple[Step, float]] = []
    folders = {each: out / each.short_name for each in models}
    done = _finished(out / _STATE)
    for each, folder in folders.items():
        common = (*_given(asked), *_given(each))
        steps = [step for step in plan(each.name, folder, settings, common, data) if list(step.command) not in done]
        item = _seconds_per_item(each, asked) if steps else 0.0
        work += [(step, step.passes * item) for step in steps]
    left = sum(seconds for _, seconds in work)
    for number, (step, seconds) in enumerate(work, 1):
        say(f"step {number} of {len(work)}: {step.label}; about {left / 60:.0f} minutes left in all")
        _run(step, out)
        done.append(list(step.command))
        files.write_json(out / _STATE, done)
        left -= seconds
    page = write_paper([(each.name, folder) for each, folder in folders.items()], out)
    found = files.read_json(out / "paper.json")
    lines = [
        f"{name}: {claim['claim']}: {claim['measured']} ({claim['holds']})"
        for name, about in found["models"].items()
        for claim in about["statements"]
    ]
    show(found, as_json=json, table="\n".join([*lines, f"{page} is ready: open it in a browser."]))


def _finished(path: Path) -> list[list[str]]:
    """Commands that an earlier run has finished; another file of that name is refused."""
    if not path.exists():
        return []
    found = files.read_json(path, what="list of steps")
    if not isinstance(found, list) or not all(isinstance(each, list) for each in found):
        raise InvalidInputError(f"{path} is not the list of steps of vispco paper. Choose another folder with --out.")
    return found


def _run(step: Any, out: Path) -> None:
    """Run a command; its tables go to a log, its progress to the screen. A failure ends the paper with its sentence."""
    log = out / "log.txt"
    out.mkdir(parents=True, exist_ok=True)
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
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415

    evaluator = EvaluatorSpec(model=model, limit=1, batch_size=_PROBE, **asked.spec()).build()
    evaluator()
    began = time.perf_counter()
    count = len(evaluator.samples)
    evaluator()
    return (time.perf_counter() - began) / max(1, count)


def _given(spec: Any) -> tuple[str, ...]:
    """Options of a dataclass that differ from their defaults, as a command line has them; a model's name is its own word."""
    changed = {each.name: getattr(spec, each.name) for each in fields(spec) if each.name != "name"}
    defaults = {each.name: each.default for each in fields(spec)}
    return _arguments({name: value for name, value in changed.items() if value != defaults[name]})


def _arguments(given: dict[str, Any]) -> tuple[str, ...]:
    words: list[str] = []
    for name, value in given.items():
        option = f"--{name.replace('_', '-')}"
        words += [] if value is None else [option] if value is True else [option, str(value)]
    return tuple(words)
