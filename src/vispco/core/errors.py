"""Exceptions of vispco.

Every message says what was given, what is allowed, and what to do. The command line prints it and exits non-zero.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any


class VispcoError(Exception):
    """The parent of all errors of this package that speak to the user."""


class InvalidInputError(VispcoError, ValueError):
    """A value that the user gave is outside of what is allowed."""


class BudgetFloorError(InvalidInputError):
    """A budget below what a configuration costs when it has removed all that it can remove."""


class NotApplicableError(VispcoError):
    """A method that does not apply to a model on which other methods can still be compared."""


class MissingExtraError(VispcoError, ImportError):
    """An optional package is needed and not installed."""


@contextmanager
def needs_extra(what: str, extra: str) -> Iterator[None]:
    """Around imports of optional packages: a missing one raises a sentence with the extra that installs it.

    what: "Figures need matplotlib". extra: its name in pyproject.toml.
    """
    try:
        yield
    except ImportError as error:
        raise MissingExtraError(
            f"{what}. To install what is missing, in the folder of your clone of vispco: pip install '.[{extra}]'."
        ) from error


@contextmanager
def parsing(what: str, remedy: str = "") -> Iterator[None]:
    """Around a `from_dict`, also as a decorator: data of another shape raises a sentence instead of what Python says.

    what: what the data should be ("a schedule"). remedy: a sentence on what to do.
    """
    try:
        yield
    except VispcoError:
        raise
    except KeyError as error:
        raise InvalidInputError(f"This is not {what}: it has no {error}. {remedy}".rstrip()) from error
    except (TypeError, ValueError, AttributeError, IndexError, ArithmeticError, RecursionError, RuntimeError) as error:
        reason = "a part of it has the wrong type, length or size"
        raise InvalidInputError(f"This is not {what}: {reason}. {remedy}".rstrip()) from error


def check_version(data: Mapping[str, Any], newest: int, what: str) -> None:
    """Refuse data of a version that is not read. Without a version it is of the first. what: "This pruner"."""
    version = data.get("version", 1)
    read = "version 1" if newest == 1 else f"versions 1 to {newest}"
    if type(version) is not int or version < 1:
        raise InvalidInputError(
            f"{what} has the version {version!r}, which is none. This vispco reads {read}: write it again."
        )
    if version > newest:
        raise InvalidInputError(
            f"{what} has version {version!r}, and this vispco reads {read}. Use a newer vispco, or write "
            "it again with this one."
        )


class UnknownNameError(VispcoError, KeyError):
    """A name (scorer, kernel, task, model) that nothing is registered under.

    The message lists the known names, and suggests the nearest one.
    """

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        plural = f"{kind[:-1]}ies" if kind.endswith("y") else f"{kind}es" if kind.endswith("ch") else f"{kind}s"
        listed = ", ".join(sorted(known))
        super().__init__(f"Unknown {kind} {name!r}. Known {plural}: {listed}.{did_you_mean(name, known)}")

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """The end of a message about a name that is not known: ' Did you mean ...?', or nothing where none is near."""
    by_lower = {each.lower(): each for each in known}
    near = get_close_matches(str(name).lower(), by_lower, n=1)
    return f" Did you mean {by_lower[near[0]]!r}?" if near else ""


class UnsupportedModelError(VispcoError, TypeError):
    """The model, its attention kernel or its cache is of a kind that the engine cannot prune exactly."""


class PrunerStateError(VispcoError, RuntimeError):
    """A pruner was applied twice, or removed from a model that it is not on."""
