"""One file, nothing outside of it, and no text of the data that could become markup."""

import json
import re
from dataclasses import replace

import pytest

from vispco.core.errors import InvalidInputError
from vispco.report import Payload, build, render, write


@pytest.fixture(scope="module")
def payload(run, other):
    return build([run, other])


def embedded(page: str) -> dict:
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def test_the_page_holds_its_payload(payload):
    assert Payload.from_dict(embedded(render(payload))) == payload


def test_the_page_names_no_address(payload):
    page = render(payload)
    assert set(re.findall(r"https?://[^\s\"'<]*", page)) == {"http://www.w3.org/2000/svg"}  # a name, never fetched
    assert not re.search(r"<(script|img|link)[^>]+(src|href)=[\"'](?!data:)", page)
    assert "@import" not in page
    assert "default-src 'none'" in page


def test_words_of_a_model_cannot_become_markup(payload):
    evil = "</script><script>alert(1)</script>"
    page = render(
        replace(payload, title=evil, examples=tuple(replace(e, question=evil, unpruned=evil) for e in payload.examples))
    )
    assert evil not in page
    assert embedded(page)["examples"][0]["question"] == evil


def test_braces_in_the_data_are_left_alone(payload):
    assert embedded(render(replace(payload, title="{{style}} {{nothing}}")))["title"] == "{{style}} {{nothing}}"


def test_a_page_with_six_examples_is_small(payload, tmp_path):
    assert len(payload.examples) == 6
    assert write(payload, tmp_path / "report.html").stat().st_size < 1_500_000


def test_runs_can_be_given_instead_of_a_payload(run, tmp_path):
    assert write(run, tmp_path / "new" / "one.html").is_file()
    assert write([run], tmp_path / "two.html").is_file()
    assert not list(tmp_path.glob(".*"))


def test_a_place_that_cannot_be_written_is_named(payload, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInputError, match="cannot be written"):
        write(payload, tmp_path / "file" / "report.html")
