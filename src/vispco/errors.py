"""What vispco raises when something that a user gave cannot work.

Every message says what was given, what is allowed, and what to do. The command line prints it and exits non-zero.
"""


class VispcoError(Exception):
    """The parent of all errors of this package that speak to the user."""


class InvalidInputError(VispcoError, ValueError):
    """A value that the user gave is outside of what is allowed."""


class UnknownNameError(VispcoError, KeyError):
    """A name (scorer, kernel, task, model) that nothing is registered under; the message lists those that are."""

    def __init__(self, kind: str, name: str, known: list[str]) -> None:
        super().__init__(f"Unknown {kind} {name!r}. Known {_plural(kind)}: {', '.join(sorted(known))}.")

    def __str__(self) -> str:  # KeyError would show the message in quotes
        return str(self.args[0])


def _plural(noun: str) -> str:
    return f"{noun[:-1]}ies" if noun.endswith("y") else f"{noun}es" if noun.endswith("ch") else f"{noun}s"


class UnsupportedModelError(VispcoError, TypeError):
    """The model, its attention kernel or its cache is of a kind that the engine cannot prune exactly."""


class PrunerStateError(VispcoError, RuntimeError):
    """A pruner was applied twice, or removed from a model that it is not on."""
