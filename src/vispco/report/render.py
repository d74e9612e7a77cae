"""`write`: one self-contained HTML file. Style, script and data are inlined; the page's own policy forbids the network."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from functools import cache
from importlib.resources import files as resources
from pathlib import Path

from vispco.core.runs import files
from vispco.report.build import build
from vispco.report.payload import Payload

STYLES = ("tokens", "layout", "controls", "figures", "survivors")
SCRIPTS = (
    "dom",
    "format",
    "state",
    "chart",
    "tooltip",
    "frontier",
    "schedule",
    "survivors",
    "lines",
    "histogram",
    "tables",
    "copy",
    "main",
)


def write(report: Payload | Sequence[str | Path] | str | Path, path: str | Path) -> Path:
    """Write the page of a payload, or of the runs in these folders, to `path`; the file appears whole or not at all."""
    if isinstance(report, str | Path):
        report = [report]
    payload = report if isinstance(report, Payload) else build(report)
    return files.write_text(path, render(payload))


def render(payload: Payload) -> str:
    """The page as text."""
    data = json.dumps(payload.to_dict(), allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    parts = {
        "title": html.escape(payload.title),
        "style": "\n".join(_asset(f"assets/{name}.css") for name in STYLES),
        "script": "\n".join(_asset(f"assets/{name}.js") for name in SCRIPTS),
        "payload": data.replace("<", "\\u003c"),  # a question may hold </script>
    }
    page = _asset("page.html")
    first, *rest = page.split("{{")
    pieces = [first]  # one pass, so that what is put in is never looked at again
    for part in rest:
        name, after = part.split("}}", 1)
        pieces += [parts[name], after]
    return "".join(pieces)


@cache
def _asset(name: str) -> str:
    return resources("vispco.report").joinpath(name).read_text(encoding="utf-8")
