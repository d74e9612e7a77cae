"""The payload is plain data: it survives JSON, newer fields, and refuses what it cannot be."""

import json

import pytest

from vispco.core.errors import InvalidInputError
from vispco.report import Payload, build
from vispco.report.payload import VERSION, PointRow


def test_a_payload_survives_json(run, other):
    payload = build([run, other])
    assert Payload.from_dict(json.loads(json.dumps(payload.to_dict(), allow_nan=False))) == payload


def test_keys_of_a_newer_version_are_ignored(run):
    payload = build([run])
    data = payload.to_dict()
    data["ornament"] = 1
    data["runs"][0]["points"][0]["colour"] = "blue"
    assert Payload.from_dict(data) == payload


@pytest.mark.parametrize(
    ("change", "word"),
    [({"format": "cake"}, "format"), ({"version": VERSION + 1}, "newer vispco"), ({"runs": [1]}, "object")],
)
def test_what_is_not_a_report_is_refused(run, change, word):
    with pytest.raises(InvalidInputError, match=word):
        Payload.from_dict({**build([run]).to_dict(), **change})


def test_a_point_that_lacks_its_accuracy_is_refused():
    with pytest.raises(InvalidInputError, match="accuracy"):
        PointRow.from_dict({"fraction": 0.5, "low": 0.0, "high": 1.0, "retention": [1.0]})
