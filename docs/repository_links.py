"""A mkdocs hook: links from a page to a file of the repository outside docs/.

They work as they are where the repository itself is read. A site leads to the repository's home page where mkdocs.yml
names one (`repo_url`); until then it names the file.
"""

from __future__ import annotations

import re
from typing import Any

OUTSIDE = re.compile(r"\[([^\]]+)\]\(\.\./([^)\s#]+)(#[^)\s]+)?\)")


def on_page_markdown(markdown: str, config: Any, **_: Any) -> str:
    if config["repo_url"]:
        return OUTSIDE.sub(rf"[\1]({config['repo_url']}/blob/main/\2\3)", markdown)
    return OUTSIDE.sub(r"\1 (`\2`)", markdown)
