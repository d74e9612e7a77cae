"""The searches by name: rivals, VisPCO's own, and those that other packages add by the entry point `vispco.searches`."""

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import RivalResult
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.registry import Registry
from vispco.evaluation.result import Evaluator


class Search(Protocol):
    """A search that a comparison can run."""

    @property
    def label(self) -> str:
        """The name of its row in a table."""

    def settings(self) -> Mapping[str, Any]:
        """Return what its result depends on. A finished row with the same settings is not searched again."""

    def search(self, calibration: Calibration | Evaluator, budget: float) -> RivalResult:
        """Find the best schedule or planner within `budget`, a fraction of the unpruned model's FLOPs."""


SEARCHES: Registry[Callable[..., Search]] = Registry("search", "vispco.searches")
"""Functions or classes that build a search from its settings, by name."""


def get(name: str, **settings: Any) -> Any:
    """Build the search `name` with these settings. 'random-40' is 'random' with n=40, 'scaled:fastv' has method='fastv'."""
    factory, name, settings = _resolve(name, settings)
    known = _setting_names(factory)
    if not settings.keys() <= set(known):
        raise InvalidInputError(f"The search {name!r} was given {sorted(settings)}. It takes: {', '.join(known)}.")
    return factory(**settings)


DEFAULT = ("vispco", "vispco-predictor", "tpe-joint", "evolution", "vflowopt", "autoprune", "btp-layers", "dop", "random", "scaled", "downsample")  # fmt: skip
"""What a comparison runs if nobody says: VisPCO's default search and the strongest of each kind of rival."""


def get_searches(names: Sequence[str] | None = None, *, seed: int = 0) -> list[Search]:
    """Build several searches, all registered ones by default. `seed` goes to those that draw anything at random."""
    wanted = SEARCHES.names() if names is None or list(names) == ["all"] else names
    return [get(name, **({"seed": seed} if takes(name, "seed") else {})) for name in wanted]


def takes(name: str, setting: str) -> bool:
    """Whether the search `name` has this setting."""
    return setting in _setting_names(_resolve(name, {})[0])


def search_names() -> list[str]:
    """Return the names of all searches, as help texts show them; 'random-N' stands for any number."""
    found = []
    for name in sorted(SEARCHES):
        found += [f"{name}-N"] if takes(name, "n") else [name]
        found += [f"{name}:METHOD"] if takes(name, "method") else []
    return found


def _resolve(name: str, settings: dict[str, Any]) -> tuple[Callable[..., Search], str, dict[str, Any]]:
    """Find the search of a name.

    NAME-40 is NAME with n=40 if that search has a setting `n`; NAME:REST has method=REST if it has a setting `method`.
    """
    if name in SEARCHES:
        return SEARCHES.get(name), name, settings
    for pattern, setting, read in ((r"(.+?):(.*)", "method", str), (r"(.+)-(\d+)", "n", int)):
        parts = re.fullmatch(pattern, name)
        if parts and parts[1] in SEARCHES and setting in _setting_names(SEARCHES.get(parts[1])):
            return SEARCHES.get(parts[1]), parts[1], {setting: read(parts[2]), **settings}
    raise UnknownNameError("search", name, search_names())


def _setting_names(factory: Callable[..., Search]) -> list[str]:
    return list(inspect.signature(factory).parameters)
