"""Names that are refused before anything heavy is imported: a misspelt scorer costs a moment, not seconds.

Only what is certainly wrong is refused here. What needs more knowledge (options of a scorer, a setting of a method, a file)
is left to the command.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from vispco.core.declared_names import DECLARATIONS, added_names, declared_names, declared_solvers
from vispco.core.errors import InvalidInputError, UnknownNameError, did_you_mean
from vispco.models.model_source import check_source

PLAIN = re.compile(r"[\w.-]+")
LINK = re.compile(r"([\w-]+)(@\d+)?")  # one scorer of a chain, without options
MEASURES = ("accuracy", "kl")  # what rivals measure
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
    """A name of a kind, or of others. Where another package adds some, only its registry can tell."""
    known = [*declared_names(kind), *more]
    if name not in known and not added_names(kind):
        raise UnknownNameError(DECLARATIONS[kind].kind, name, known)


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
    if PLAIN.fullmatch(name) and not added_names("scorers"):
        _check("methods", name, *(each for each in declared_names("scorers") if each not in declared_names("methods")))


def _check_methods(text: str) -> None:
    for part in filter(None, text.split(",")):
        _check_method(part)


def _check_searches(text: str) -> None:
    """all, or names, with a number (random-40) or a method (scaled:pyramiddrop)."""
    known = declared_names("searches")
    for part in filter(None, (part.strip() for part in text.split(","))):
        bases = {part, part.partition(":")[0], re.sub(r"-\d+$", "", part)}
        if not bases & {*known, "all", "none"}:
            _check("searches", part)


def _check_learned(text: str) -> None:
    """A method that is trained; another method is known, too, but has nothing to train."""
    learned = declared_names("learned")
    if text not in learned and text in {*declared_names("scorers"), *declared_names("methods")}:
        raise InvalidInputError(f"The method {text!r} has nothing to train. Methods that have: {', '.join(learned)}.")
    _check("learned", text)


def _check_solver(text: str) -> None:
    known = declared_solvers()
    if text not in known:
        raise UnknownNameError("solver", text, known)


def _check_measure(text: str) -> None:
    if text not in MEASURES:
        raise UnknownNameError("measure", text, list(MEASURES))


def _check_allocation(text: str) -> None:
    known = declared_names("allocations")
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
    tasks = [*declared_names("tasks"), *declared_names("several-tasks")]
    others = ("all", "several", *declared_names("task-groups"), *declared_names("benchmarks"))
    parts: Iterable[str] = (part.strip() for part in text.split(","))
    for part in parts if "=" not in text and not added_names("benchmarks") else ():
        if part and part not in tasks and part not in others:
            raise UnknownNameError("task", part, tasks)


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
