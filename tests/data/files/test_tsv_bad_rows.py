"""Tables with broken rows: each is skipped with file and row, and the rest is read."""

import base64
import re

import pytest

from vispco.core.errors import InvalidInputError
from vispco.data.files import SkippedItemError, Tsv
from vispco.data.files.samples import decoded


def read(reader):
    return list(reader), reader.report


BAD = [
    ("broken base64", {"image": "!!!!" * 30}, "not valid base64"),
    ("broken base64", {"image": "iVBORw0KGgo" * 11}, "base64"),
    ("broken base64", {"image": base64.b64encode(b"hello " * 30).decode()}, "not an image"),
    ("broken base64", {"image": "99"}, "a text of 2 characters, neither base64 nor the index"),
    ("no image", {"image": ""}, "no image"),
    ("no question", {"question": " "}, "question is empty"),
    ("no answer", {"answer": ""}, "answer is empty"),
    ("no answer", {"answer": "[]"}, "answer is empty"),
    ("duplicate id", {"index": "1"}, "'1' is also that of row 1"),
    ("malformed row", {"index": ""}, "index is empty"),
    ("NUL byte", {"question": "a\0b"}, "question holds a NUL byte"),
]


@pytest.mark.parametrize(("reason", "change", "sentence"), BAD)
def test_a_bad_row_is_skipped_with_file_and_row(table, row, reason, change, sentence, header):
    path = table([header, row("1"), row(**{"index": "2", **change}), row("3")])
    records, report = read(Tsv(path))
    assert [record.row for record in records] == [1, 3]
    assert dict(report.reasons) == {reason: 1}
    assert report.listed[0].sentence.startswith(f"{path}, row 2: ")
    assert re.search(sentence, report.listed[0].sentence)


def test_a_picture_cut_off_inside_is_counted_when_it_is_decoded(table, row, png, header):
    cut = base64.b64encode(png[: len(png) * 2 // 3]).decode()
    reader = Tsv(table([header, row("1"), row("2", image=cut)]))
    records = list(reader)
    with pytest.raises(SkippedItemError, match=r"table\.tsv, row 2: its image: .*cut off"):
        records[1].image()
    assert [record.id for record in reader if decoded(record, reader.report) is not None] == ["1"]
    assert reader.report.to_dict()["reasons"] == {"broken image": 1}


def test_a_truncated_file_keeps_its_whole_rows(table, row, header):
    path = table([header, row("1"), row("2", question="a\nb"), row("3")])
    whole = path.read_bytes()
    for cut in range(len(whole) - len(whole) // 4, len(whole) - 8, 11):
        path.write_bytes(whole[:cut])
        records, report = read(Tsv(path))
        assert [record.id for record in records] == ["1", "2"]
        assert report.count == 1
        assert re.search(r"row 3: .*(cut off|never closed)", report.listed[0].sentence)


def test_a_quote_that_is_never_closed_costs_only_its_row(table, row, tmp_path, header):
    path = table([header, row("1"), row("2", question="MARK"), *(row(str(number)) for number in range(3, 6))])
    path.write_bytes(path.read_bytes().replace(b"MARK", b'"never closed'))
    records, report = read(Tsv(path))
    assert [record.id for record in records] == ["1", "3", "4", "5"]
    assert "never closed" in report.listed[0].sentence


def test_too_many_columns_are_told_from_too_few(table, row, header):
    path = table([header, row("1"), [*row("2"), "more"], row("3")[:-2]])
    _, report = read(Tsv(path))
    assert [re.sub(".*: it has", "", entry.sentence)[:3].strip() for entry in report.listed] == ["10", "7"]


def test_another_encoding_costs_its_rows_or_is_named(table, row, header):
    path = table([header, row("1"), row("2", question="café")], encoding="cp1252")
    records, report = read(Tsv(path))
    assert [record.id for record in records] == ["1"]
    assert dict(report.reasons) == {"not utf-8": 1}
    assert "byte 0xe9" in report.listed[0].sentence
    assert [record.question for record in Tsv(path, encoding="cp1252")] == ["Which?", "café"]


def test_without_an_index_the_row_is_the_id(table, cell):
    records, _ = read(Tsv(table([["image", "question", "answer"], [cell, "q", "a"], [cell, "q", "b"]])))
    assert [record.id for record in records] == ["1", "2"]


def test_a_byte_order_mark_is_no_part_of_a_name(table, row, header):
    ((record,), _) = read(Tsv(table([header, row("5")], encoding="utf-8-sig")))
    assert record.id == "5"


@pytest.mark.parametrize(
    ("header", "sentence"),
    [
        (["index", "image", "question"], r"no answer column.*MMBench_DEV_EN"),
        (["index", "question", "answer"], "has no images"),
        (["index", "image", "answer"], "no question column"),
        (["index,image,question,answer"], "separated by tabs"),
    ],
)
def test_a_missing_column_is_named_with_those_that_are_there(table, header, sentence):
    path = table([header, ["1"] * len(header)])
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        list(Tsv(path))
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        ("index\timage".encode("utf-16"), "UTF-16"),
        (b"index\tim\xe9\tquestion\tanswer\n", "header: it is not in utf-8"),
        (b'"index\timage', "never closed"),
        (b"index\timage\tquestion\tanswer\n", "holds no items"),
    ],
)
def test_a_file_that_is_no_table_says_so(tmp_path, data, sentence):
    path = tmp_path / "bad.tsv"
    path.write_bytes(data)
    with pytest.raises(InvalidInputError, match=sentence):
        list(Tsv(path))
