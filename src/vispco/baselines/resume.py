"""Going on with a comparison: the rows of its file, unless it is another comparison's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vispco.baselines.comparison import Comparison, Row
from vispco.errors import InvalidInputError


def rows_done(path: Path, budget: float, cost: str, ground: Mapping[str, Any]) -> tuple[Row, ...]:
    """The rows of an earlier run of the same comparison, none if there was none; another's is refused, both are named.

    ground: what the rows depend on, as it stands in the comparison's details.
    """
    if not path.exists():
        return ()
    found = Comparison.load(path)
    theirs = {"budget": found.budget, "cost": found.cost, **{key: found.details.get(key) for key in ground}}
    ours = {"budget": budget, "cost": cost, **ground}
    if theirs == ours:
        return found.rows
    raise InvalidInputError(
        f"{path} is another comparison: it has {_told(theirs, ours)}; this one has {_told(ours, theirs)}. Choose another "
        "folder with --out, or the same settings to go on with it."
    )


def _told(side: Mapping[str, Any], other: Mapping[str, Any]) -> str:
    """What one side has where the two differ; inside a group of settings, only those that differ."""
    told = []
    for key in side:
        mine, theirs = side[key], other[key]
        if isinstance(mine, Mapping) and isinstance(theirs, Mapping):
            told += [f"{key} {name}={mine[name]!r}" for name in mine if mine[name] != theirs.get(name)]
        elif mine != theirs:
            told.append(f"{key}={mine!r}")
    return ", ".join(told)
