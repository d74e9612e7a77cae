"""What a metric may look at: the accepted answers, the options, and what else the dataset says of the item."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Item(Protocol):
    """`vispco.sources.Record` is one."""

    @property
    def question(self) -> str: ...
    @property
    def references(self) -> tuple[str, ...]: ...
    @property
    def options(self) -> Mapping[str, str]: ...
    @property
    def meta(self) -> Mapping[str, Any]: ...


if TYPE_CHECKING:
    Metric = Callable[[str, Item], float]
    """A score in [0, 1] of a prediction; an empty prediction scores 0 in every metric."""
