"""Writes docs/api.md from the docstrings of what the package exports; `--check` fails if it is out of date."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path
from typing import Any

from vispco.registry import Registry

PAGE = Path(__file__).parent / "api.md"
MODULES = (
    "vispco",
    "vispco.kernels",
    "vispco.cost",
    "vispco.scorers",
    "vispco.engine",
    "vispco.families",
    "vispco.frontier",
    "vispco.evaluation",
    "vispco.search",
    "vispco.planning.deployment",
    "vispco.sweep",
    "vispco.rivals",
    "vispco.data",
    "vispco.sources",
    "vispco.metrics",
    "vispco.zoo",
    "vispco.bench",
    "vispco.report",
    "vispco.plots",
    "vispco.errors",
)
HEAD = """# API reference

Written from the docstrings by `docs/write_api.py` (`make api`); a test fails when it is out of date. What is not listed
here is not meant to be imported. Shapes stand in brackets: B samples, L layers, V visual tokens, N tokens.
"""


def page() -> str:
    parts = [HEAD]
    parts += [f"- [`{name}`](#{_anchor(name)})" for name in MODULES]
    parts += [_module(name) for name in MODULES]
    return re.sub(r"\n{3,}", "\n\n", "\n".join(parts)).rstrip() + "\n"


def _anchor(heading: str) -> str:
    return re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-"))


def _module(name: str) -> str:
    module = importlib.import_module(name)
    lines = [f"\n## {name}\n", _text(module), ""]
    for exported in _exports(module):
        lines += _entry(exported, getattr(module, exported))
    return "\n".join(lines)


def _exports(module: Any) -> list[str]:
    """`__all__`, or what is defined there."""
    listed = getattr(module, "__all__", None)
    if listed is None:
        listed = [n for n, v in vars(module).items() if getattr(v, "__module__", "") == module.__name__]
    return sorted((n for n in listed if not n.startswith("_")), key=lambda n: (n[0].islower(), n.lower()))


def _entry(name: str, value: Any) -> list[str]:
    if inspect.isclass(value):
        return [f"### {name}\n", _signature(name, value), _text(value), *_methods(value)]
    if callable(value):
        return [f"### {name}\n", _signature(name, value), _text(value), ""]
    if inspect.ismodule(value):
        return [f"### {name}\n", _text(value), ""]
    return [f"### {name}\n", f"`{name}`, {_constant(value)}.", ""]


def _constant(value: Any) -> str:
    if isinstance(value, dict | Registry):
        return "by name: " + ", ".join(f"`{key}`" for key in value)
    shown = repr(value)
    return f"`{shown}`" if len(shown) < 90 and " at 0x" not in shown else f"a {type(value).__name__}"


def _methods(cls: type) -> list[str]:
    """Public methods that the class itself defines and that say what they do."""
    rows = []
    for name, value in vars(cls).items():
        inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
        if name.startswith("_") or not (callable(inner) or isinstance(inner, property)):
            continue
        told = inspect.getdoc(inner)
        if told and not inspect.isclass(inner):
            call = f"`.{name}`" if isinstance(inner, property) else f"`.{name}{_arguments(inner, method=True)}`"
            rows.append(f"- {call}: {_flat(told)}")
    return [*rows, ""] if rows else [""]


def _signature(name: str, value: Any) -> str:
    return f"```text\n{name}{_arguments(value)}\n```\n"


def _arguments(value: Any, *, method: bool = False) -> str:
    try:
        signature = inspect.signature(value)
    except (TypeError, ValueError):
        return "(...)"
    shown = list(signature.parameters.values())
    if method and shown and shown[0].name in ("self", "cls"):
        shown = shown[1:]
    text = str(signature.replace(parameters=shown))
    text = re.sub(r"<(?:function|class|bound method) '?([\w.]+)[^>]*>", r"\1", text)
    text = re.sub(r" at 0x[0-9a-f]+", "", text)
    return text.replace("'", "").replace("typing.", "").replace("collections.abc.", "")


def _text(value: Any) -> str:
    told = vars(value).get("__doc__") if inspect.isclass(value) else value.__doc__
    if not told or told.startswith(f"{getattr(value, '__name__', '')}("):  # a dataclass's own
        return ""
    listed = re.sub(r"(?m)^([a-z_]\w*(?:, [a-z_]\w*)*): ", r"- `\1`: ", inspect.cleandoc(told))
    return re.sub(r"(?m)^((?!- `).+)\n- `", r"\1\n\n- `", listed) + "\n"


def _flat(told: str) -> str:
    return " ".join(told.split())


def main() -> None:
    new = page()
    if "--check" in sys.argv:
        if not PAGE.exists() or PAGE.read_text() != new:
            sys.exit("docs/api.md is out of date. Run: python docs/write_api.py")
        return
    PAGE.write_text(new)


if __name__ == "__main__":
    main()
