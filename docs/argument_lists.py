"""A griffe extension: lines `name: what it is` at the end of a docstring become a list.

Docstrings of this project describe arguments that way. Markdown would join the lines to one paragraph.
"""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

ARGUMENT = re.compile(r"(?m)^([a-z_]\w*(?:, [a-z_]\w*)*): ")


def listed(text: str, names: set[str]) -> str:
    """The docstring with each line that describes one of `names` as an item of a list."""

    def item(match: re.Match[str]) -> str:
        return f"- `{match[1]}`: " if match[1].partition(",")[0] in names else match[0]

    return re.sub(r"(?m)^((?!- `).*\S.*)\n- `", r"\1\n\n- `", ARGUMENT.sub(item, text))


class ArgumentLists(Extension):
    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is not None:
            names = {parameter.name for parameter in getattr(obj, "parameters", ())} | set(obj.members)
            obj.docstring.value = listed(obj.docstring.value, names)
