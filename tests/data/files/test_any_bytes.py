"""Laws for every input: what is written is read back, and no bytes raise anything but the package's own errors."""

import csv
import io
import json

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from vispco.core.errors import VispcoError
from vispco.data.files import Jsonl, LlavaInstruct, Skipped, Tsv
from vispco.data.files.json_files import _read_json_array
from vispco.data.files.samples import decoded
from vispco.data.files.tsv_rows import read_rows

quick = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(st.characters(codec="utf-8")),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters(codec="utf-8")), inner, max_size=4)
    ),
    max_leaves=12,
)
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0\ufeff"), max_size=12)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "file"


@quick
@given(values=st.lists(VALUES, max_size=8), indent=st.sampled_from([None, 2]), ascii_only=st.booleans())
def test_a_json_list_is_read_back(file, values, indent, ascii_only):
    file.write_text(json.dumps(values, indent=indent, ensure_ascii=ascii_only), encoding="utf-8", newline="")
    assert [entry[1] for entry in _read_json_array(file)] == values


@pytest.mark.parametrize("chunk", [1, 2, 3, 7])
def test_it_does_not_matter_where_the_window_ends(file, monkeypatch, chunk):
    monkeypatch.setattr("vispco.data.files.json_files.CHUNK", chunk)
    values = [1, 12345, -1.5e10, 'é]}"\\', {"a": [True, None, {"b": "[,{"}]}, [], {}, "", "\u2028😀"]
    file.write_text(json.dumps(values, ensure_ascii=False), encoding="utf-8")
    assert [entry[1] for entry in _read_json_array(file)] == values


@quick
@given(values=st.lists(VALUES, min_size=1, max_size=5), cut=st.integers(0, 200))
def test_a_json_list_cut_anywhere_gives_its_beginning_and_says_so(file, values, cut):
    text = json.dumps(values)
    file.write_text(text[: 1 + cut % (len(text) - 1)], encoding="utf-8")
    entries = list(_read_json_array(file))
    whole = [entry[1] for entry in entries if not isinstance(entry, Skipped)]
    # A number cut in two is still a number: the last one may be wrong, and only then.
    assert whole[:-1] == values[: len(whole)][:-1]
    assert entries
    assert isinstance(entries[-1], Skipped)


@quick
@given(
    rows=st.lists(st.lists(TEXT, min_size=2, max_size=4), max_size=6),
    quoting=st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL]),
)
def test_a_table_is_read_back_as_pythons_csv_writes_it(file, rows, quoting):
    stream = io.StringIO()
    csv.writer(stream, delimiter="\t", lineterminator="\n", quoting=quoting).writerows(rows)
    assume(quoting == csv.QUOTE_ALL or "\r" not in stream.getvalue())  # which csv does not quote, nor read back itself
    file.write_text(stream.getvalue(), encoding="utf-8", newline="")
    found = [[field.decode() for field in row.fields] for row in read_rows(file)]
    assert found == [row for row in rows if "".join(row).strip("\r\n") or len(row) > 1]
    for row in read_rows(file):
        assert next(read_rows(file, row.offset, row.number)).fields == row.fields


BYTES = st.binary(max_size=300) | st.lists(
    st.sampled_from([b"[", b"]", b"{", b"}", b'"', b"\t", b"\n", b",", b":", b"\\", b"1", b"id", b"image", b"\xff", b"\0", b"conversations", b"a.png"]),
    max_size=60,
).map(b"".join)  # fmt: skip
TABLE = b"index\timage\tquestion\tanswer\n"


@quick
@given(data=BYTES, reader=st.sampled_from([LlavaInstruct, Jsonl, Tsv]), start=st.sampled_from([b"", TABLE, b"["]))
def test_no_bytes_raise_anything_but_the_packages_errors(file, data, reader, start):
    file.write_bytes(start + data)
    try:
        for record in reader(file):
            record.images()
    except VispcoError as error:
        assert str(file) in str(error)  # noqa: PT017  most inputs raise; the law is about those that do


@quick
@given(place=st.integers(0, 10_000), byte=st.integers(0, 255), reader=st.sampled_from([LlavaInstruct, Jsonl, Tsv]))
def test_one_wrong_byte_in_a_good_file_costs_some_items_at_most(tmp_path, png, cell, talk, place, byte, reader):
    (tmp_path / "a.png").write_bytes(png)
    elements = [talk("<image>\nWhat?", "It.", id=number, image="a.png") for number in range(3)]
    rows = [TABLE.decode(), *(f"{number}\t{cell}\tq\ta\n" for number in range(3))]
    lines = [json.dumps(element) + "\n" for element in elements]
    text = {LlavaInstruct: json.dumps(elements), Jsonl: "".join(lines), Tsv: "".join(rows)}[reader]
    data = bytearray(text.encode())
    data[place % len(data)] = byte
    path = tmp_path / "file"
    path.write_bytes(data)
    try:
        source = reader(path)
        for record in source:
            decoded(record, source.report)
        assert source.report.used >= 1
    except VispcoError as error:
        assert str(path) in str(error)  # noqa: PT017
