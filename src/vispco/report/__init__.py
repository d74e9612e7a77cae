"""The report: one self-contained page about one or more runs. `write(runs, path)` makes it."""

from vispco.report.build import build, render, write
from vispco.report.payload import Payload

__all__ = ["Payload", "build", "render", "write"]
