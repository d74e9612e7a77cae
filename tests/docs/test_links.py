"""Links and pictures of the README and the docs lead somewhere; pictures are small."""

import re

import pytest

from docs.pages import PAGES, ROOT, anchors, prose

LINK = r"\]\((?!https?:|mailto:)([^)]+)\)|(?:src|srcset|href)=\"(?!https?:)([^\"]+)\""


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_links_lead_somewhere(page):
    for found in re.findall(LINK, prose(page)):
        path, _, anchor = next(filter(None, found)).partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{page.name} links to {path}, which is not there"
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), f"{page.name} links to {path}#{anchor}, which is no heading"


def test_every_page_is_in_the_index():
    index = (ROOT / "docs" / "index.md").read_text()
    missing = [page.name for page in PAGES[1:] if page.name != "index.md" and f"]({page.name})" not in index]
    assert missing == []


def test_pictures_are_small_and_shown():
    pictures = sorted(path for path in (ROOT / "docs" / "pictures").iterdir() if path.suffix != ".json")
    assert len(pictures) >= 3
    text = "".join(page.read_text() for page in PAGES)
    for picture in pictures:
        assert picture.stat().st_size < 300_000, picture.name
        assert picture.name in text, f"{picture.name} is shown nowhere"
