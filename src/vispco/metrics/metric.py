"""What a metric is, and the metrics by name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from vispco.core.registry import Registry

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class Item(Protocol):
    """What a metric may look at. `vispco.data.files.Record` is one."""

    @property
    def question(self) -> str: ...
    @property
    def references(self) -> tuple[str, ...]:
        """All accepted answers. One that a person left empty is an empty string."""

    @property
    def options(self) -> Mapping[str, str]:
        """The choices by letter; empty where the question is open."""

    @property
    def meta(self) -> Mapping[str, Any]:
        """Further columns of the row, such as `category`."""


if TYPE_CHECKING:
    Metric = Callable[[str, Item], float]
    """(prediction, item) -> score in [0, 1]. An empty prediction scores 0 in every metric."""

METRICS: Registry[Metric] = Registry("metric", "vispco.metrics")
