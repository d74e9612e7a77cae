"""The pages can be read in an editor: lines of prose and of code end before column 120."""

import pytest

from docs.pages import PAGES, ROOT

WIDTH = 120
FILES = (
    *PAGES,
    *(ROOT / name for name in ("AGENTS.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "CODE_OF_CONDUCT.md")),
)


@pytest.mark.parametrize("page", FILES, ids=lambda p: p.stem)
def test_lines_are_wrapped(page):
    """Rows of tables and pictures cannot be wrapped."""
    lines = enumerate(page.read_text().splitlines(), 1)
    assert [number for number, line in lines if len(line) > WIDTH and not line.lstrip().startswith(("|", "<"))] == []
