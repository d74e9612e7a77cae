"""Unknown names in options, refused before a model is loaded.

Only what is certainly wrong is refused here. What needs more knowledge (options of a scorer, a setting of a method, a file)
is left to the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, get_args

from vispco.cli.registered_names import names
from vispco.core.errors import InvalidInputError, UnknownNameError, did_you_mean
from vispco.models.model_source import check_source

PLAIN = re.compile(r"[\w.-]+")
LINK = re.compile(r"([\w-]+)(@\d+)?")  # one scorer of a chain, without options
OWN_MODELS = ("info", "check", "zoo train")  # commands that take more than a model, or less


def refuse_unknown_names(command: str, given: Mapping[str, Any]) -> None:
    """Raise the sentence for the first option whose value is a name that nobody knows.

    command: such as "compare searches". given: its options by name.
    """
    for option, value in given.items():
        check = CHECKS.get(f"{command}:{option}", CHECKS.get(option))
        for each in value if isinstance(value, list | tuple) else (value,):
            if check is not None and isinstance(each, str):
                check(each)
    if given.get("data_root") is None and isinstance(given.get("tasks"), str):
        _check_tasks(given["tasks"])
    if isinstance(given.get("model"), str) and command not in OWN_MODELS:
        check_source(given["model"])


def _check(kind: str, name: str, *more: str) -> None:
    """A name of a kind, or of others."""
    known = [*names(kind), *more]
    if name not in known:
        raise UnknownNameError("strategy" if kind == "strategies" else kind.removesuffix("s"), name, known)


def _one(kind: str, *more: str) -> Callable[[str], None]:
    return lambda text: _check(kind, text, *more)


def _check_chain(text: str) -> None:
    for part in text.split("+"):
        link = LINK.fullmatch(part.strip())
        if link is not None and "(" not in text:
            _check("scorers", link[1])


def _check_chains(text: str) -> None:
    for chain in text.split(",") if "(" not in text else ():
        _check_chain(chain)


def _check_method(text: str) -> None:
    """A published method with or without a setting or a budget, or a chain of scorers."""
    name = re.split(r"[:@]", text.strip())[0]
    if PLAIN.fullmatch(name):
        _check("methods", name, *(each for each in names("scorers") if each not in names("methods")))


def _check_methods(text: str) -> None:
    for part in filter(None, text.split(",")):
        _check_method(part)


def _check_searches(text: str) -> None:
    """all, or names, with a number (random-40) or a method (scaled:pyramiddrop)."""
    from vispco.compare.searches.registry import SEARCHES  # noqa: PLC0415

    for part in filter(None, (part.strip() for part in text.split(","))):
        bases = {part, part.partition(":")[0], re.sub(r"-\d+$", "", part)}
        if not bases & {*SEARCHES, "all", "none"}:
            raise UnknownNameError("search", part, list(SEARCHES))


def _check_learned(text: str) -> None:
    """A method that is trained; another method is known, too, but has nothing to train."""
    from vispco.scorers import SCORERS  # noqa: PLC0415
    from vispco.scorers.learned import LearnedScorer  # noqa: PLC0415

    learned = [name for name in SCORERS if issubclass(SCORERS.get(name), LearnedScorer)]
    if text in learned:
        return
    if text in {*SCORERS, *names("methods")}:
        raise InvalidInputError(f"The method {text!r} has nothing to train. Methods that have: {', '.join(learned)}.")
    raise UnknownNameError("method", text, learned)


def _check_solver(text: str) -> None:
    from vispco.search.spec import SOLVERS  # noqa: PLC0415

    known = list(dict.fromkeys(solver for solvers in SOLVERS.values() for solver in solvers))
    if text not in known:
        raise UnknownNameError("solver", text, known)


def _check_measure(text: str) -> None:
    from vispco.compare.searches.calibration import Measure  # noqa: PLC0415

    if text not in get_args(Measure):
        raise UnknownNameError("measure", text, list(get_args(Measure)))


def _check_allocation(text: str) -> None:
    known = names("allocations")
    if text not in known:
        raise InvalidInputError(
            f"--allocation {text} was given. It says how tokens are divided over the pictures of a prompt: "
            f"{', '.join(known)}.{did_you_mean(text, known)}"
        )


def _check_space(text: str) -> None:
    kernel = text.removeprefix("kernel:")
    if kernel != text:
        _check("kernels", kernel)
    else:
        _check("spaces", text, "kernel:NAME")


def _check_tasks(text: str) -> None:
    from vispco.data.dataset import SEVERAL, TASKS  # noqa: PLC0415

    tasks: dict[str, Any] = {**TASKS, **SEVERAL}
    known = {*tasks, "all", "several", *(task.group for task in tasks.values()), *names("benchmarks")}
    for part in (part.strip() for part in text.split(",")) if "=" not in text else ():
        if part and part not in known:
            raise UnknownNameError("task", part, list(tasks))


# By option; COMMAND:OPTION where a command means something else by it.
CHECKS: dict[str, Callable[[str], None]] = {
    "scorer": _check_chain,
    "scorers": _check_chains,
    "method": _check_method,
    "methods": _check_methods,
    "compare searches:methods": _check_searches,
    "compare methods:search": _check_searches,
    "train:method": _check_learned,
    "kernel": _one("kernels"),
    "cost": _one("costs"),
    "mode": _one("modes"),
    "solver": _check_solver,
    "measure": _check_measure,
    "strategy": _one("strategies"),
    "space": _check_space,
    "engine": _one("engines"),
    "split": _one("splits"),
    "protocol": _one("protocols"),
    "dtype": _one("dtypes"),
    "allocation": _check_allocation,
    "zoo train:name": _one("models"),
}
