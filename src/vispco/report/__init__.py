"""The report: one self-contained page about one or more runs. `write(runs, path)` makes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from vispco.report.build_page import build, render, write
    from vispco.report.payload import Payload

__all__ = ["Payload", "build", "render", "write"]

_HOMES = {
    "build": "vispco.report.build_page",
    "Payload": "vispco.report.payload",
    "render": "vispco.report.build_page",
    "write": "vispco.report.build_page",
}
__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
