"""A mkdocs hook: links from a page to a file of the repository outside docs/ lead to it on the project's home page.

The same links work as they are where the repository itself is read.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\]\(\.\./([^)\s]+)\)")


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    return OUTSIDE.sub(rf"]({config['repo_url']}/blob/main/\1)", markdown)
