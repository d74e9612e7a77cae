"""The report: one self-contained page about one or more runs. `write(runs, path)` makes it."""

from vispco.report.build import build
from vispco.report.payload import Payload
from vispco.report.render import render, write

__all__ = ["Payload", "build", "render", "write"]
