"""VLMEvalKit's tables: what their rows mean, and what becomes of rows that are broken."""

import base64
import re

import pytest
from PIL import Image

from vispco.errors import InvalidInputError
from vispco.metrics import EvaluationSet
from vispco.sources import SkippedItemError, Tsv

HEADER = ["index", "image", "question", "hint", "A", "B", "C", "answer", "category"]


@pytest.fixture
def row(cell):
    def make(index="1", image=cell, question="Which?", hint="", answer="A", category="x"):
        return [index, image, question, hint, "dog", "cat", "", answer, category]

    return make


def read(reader):
    return list(reader), reader.report


def test_a_row_is_a_question_with_its_picture_options_and_answer(table, row):
    path = table([HEADER, row("12", hint="Look left.", category="animals")])
    (record,), report = read(Tsv(path, task="mmbench"))
    assert (record.id, record.task, record.row, record.prompt, record.hint) == (
        "12",
        "mmbench",
        1,
        "Which?",
        "Look left.",
    )
    assert (record.references, record.options, record.meta) == (
        ("A",),
        {"A": "dog", "B": "cat"},
        {"category": "animals"},
    )
    assert record.image().size == (8, 6)
    assert (report.used, report.count) == (1, 0)


def test_quotes_tabs_and_line_breaks_in_a_text_are_text(table, row):
    question = 'He said "what\tis\nthis" ""?\r\nSay "it"'
    ((record, second), _) = read(Tsv(table([HEADER, row("1", question=question), row("2")])))
    assert record.question == question
    assert second.row == 2
    assert second.image().size == (8, 6)


def test_a_picture_may_be_that_of_another_row_before_or_after(table, row):
    rows = [row("1", image="3"), row("2"), row("3"), row("1000002", image="2"), row("1000001", image="1")]
    records, report = read(Tsv(table([HEADER, *rows])))
    assert report.count == 0
    assert [record.image().size for record in records] == [(8, 6)] * 5


def test_rows_that_name_each_other_in_a_circle_are_skipped(table, row):
    _, report = read(Tsv(table([HEADER, row("1", image="2"), row("2", image="1"), row("3")])))
    assert report.count == 2


def test_a_1_by_1_picture_shorter_than_an_index_limit_is_a_picture(table, row, encode):
    tiny = base64.b64encode(encode(Image.new("L", (1, 1)), "GIF")).decode()
    assert len(tiny) <= 64
    ((record,), _) = read(Tsv(table([HEADER, row(image=tiny)])))
    assert record.image().size == (1, 1)


@pytest.mark.parametrize("write", [str, lambda cells: str(cells).replace("'", '"')])
def test_a_list_of_pictures(table, row, cell, write):
    ((record,), _) = read(Tsv(table([HEADER, row(image=write([cell, cell]))])))
    assert [image.size for image in record.images()] == [(8, 6)] * 2


def test_data_urls_and_wrapped_base64_are_read(table, row, cell):
    wrapped = "\n".join(cell[start : start + 40] for start in range(0, len(cell), 40))
    records, _ = read(Tsv(table([HEADER, row("1", f"data:image/png;base64,{cell}"), row("2", wrapped)])))
    assert [record.image().size for record in records] == [(8, 6)] * 2


def test_pictures_may_be_files(tmp_path, table, png):
    (tmp_path / "images" / "table").mkdir(parents=True)
    (tmp_path / "images" / "table" / "a.png").write_bytes(png)
    (tmp_path / "b.png").write_bytes(png)
    header = ["index", "image_path", "question", "answer"]
    rows = [
        ["1", "a.png", "q", "x"],
        ["2", "['a.png', 'b.png']", "q", "x"],
        ["3", "c.png", "q", "x"],
        ["4", "", "q", "x"],
    ]
    records, report = read(Tsv(table([header, *rows])))
    assert [len(record.images()) for record in records] == [1, 2]
    assert dict(report.reasons) == {"missing image": 1, "no image": 1}


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("['a', 'b b', \"c's\"]", ("a", "b b", "c's")),
        ('["a", "b"]', ("a", "b")),
        ("[{'answer': 'a', 'answer_confidence': 'yes'}, {'answer': 'b'}]", ("a", "b")),
        ("[1, 2.5]", ("1", "2.5")),
        ("[not a list", ("[not a list",)),
        ("12", ("12",)),
    ],
)
@pytest.mark.parametrize("name", ["answer", "answers"])
def test_answers_may_be_a_list(table, cell, text, references, name):
    ((record,), _) = read(Tsv(table([["index", "image", "question", name], ["1", cell, "q", text]])))
    assert record.references == references


BAD = [
    ("broken base64", {"image": "!!!!" * 30}, "not valid base64"),
    ("broken base64", {"image": "iVBORw0KGgo" * 11}, "base64"),
    ("broken base64", {"image": base64.b64encode(b"hello " * 30).decode()}, "not an image"),
    ("broken base64", {"image": "99"}, "'99', neither base64 nor the index"),
    ("no image", {"image": ""}, "no image"),
    ("no question", {"question": " "}, "question is empty"),
    ("no answer", {"answer": ""}, "answer is empty"),
    ("no answer", {"answer": "[]"}, "answer is empty"),
    ("duplicate id", {"index": "1"}, "'1' is also that of row 1"),
    ("malformed row", {"index": ""}, "index is empty"),
    ("NUL byte", {"question": "a\0b"}, "question holds a NUL byte"),
]


@pytest.mark.parametrize(("reason", "change", "sentence"), BAD)
def test_a_bad_row_is_skipped_with_file_and_row(table, row, reason, change, sentence):
    path = table([HEADER, row("1"), row(**{"index": "2", **change}), row("3")])
    records, report = read(Tsv(path))
    assert [record.row for record in records] == [1, 3]
    assert dict(report.reasons) == {reason: 1}
    assert report.listed[0].sentence.startswith(f"{path}, row 2: ")
    assert re.search(sentence, report.listed[0].sentence)


def test_a_picture_cut_off_inside_is_counted_when_it_is_decoded(table, row, png):
    cut = base64.b64encode(png[: len(png) * 2 // 3]).decode()
    reader = Tsv(table([HEADER, row("1"), row("2", image=cut)]))
    records = list(reader)
    with pytest.raises(SkippedItemError, match=r"table\.tsv, row 2: its image: .*cut off"):
        records[1].image()
    assert [record.id for record, _ in reader.decoded()] == ["1"]
    assert reader.report.to_dict()["reasons"] == {"broken image": 1}


def test_a_truncated_file_keeps_its_whole_rows(table, row):
    path = table([HEADER, row("1"), row("2", question="a\nb"), row("3")])
    whole = path.read_bytes()
    for cut in range(len(whole) - len(whole) // 4, len(whole) - 8, 11):
        path.write_bytes(whole[:cut])
        records, report = read(Tsv(path))
        assert [record.id for record in records] == ["1", "2"]
        assert report.count == 1
        assert re.search(r"row 3: .*(cut off|never closed)", report.listed[0].sentence)


def test_a_quote_that_is_never_closed_costs_only_its_row(table, row, tmp_path):
    path = table([HEADER, row("1"), row("2", question="MARK"), *(row(str(number)) for number in range(3, 6))])
    path.write_bytes(path.read_bytes().replace(b"MARK", b'"never closed'))
    records, report = read(Tsv(path))
    assert [record.id for record in records] == ["1", "3", "4", "5"]
    assert "never closed" in report.listed[0].sentence


def test_too_many_columns_are_told_from_too_few(table, row):
    path = table([HEADER, row("1"), [*row("2"), "more"], row("3")[:-2]])
    _, report = read(Tsv(path))
    assert [re.sub(".*: it has", "", entry.sentence)[:3].strip() for entry in report.listed] == ["10", "7"]


def test_another_encoding_costs_its_rows_or_is_named(table, row):
    path = table([HEADER, row("1"), row("2", question="café")], encoding="cp1252")
    records, report = read(Tsv(path))
    assert [record.id for record in records] == ["1"]
    assert dict(report.reasons) == {"not utf-8": 1}
    assert "byte 0xe9" in report.listed[0].sentence
    assert [record.question for record in Tsv(path, encoding="cp1252")] == ["Which?", "café"]


def test_a_byte_order_mark_is_no_part_of_a_name(table, row):
    ((record,), _) = read(Tsv(table([HEADER, row("5")], encoding="utf-8-sig")))
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


def test_wrong_arguments_are_refused_at_once(table, row, tmp_path):
    path = table([HEADER, row()])
    for change, sentence in (
        ({"encoding": "nonsense"}, "Unknown encoding"),
        ({"max_side": 0}, "max_side is 0"),
        ({"images": tmp_path / "none"}, "image folder"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            Tsv(path, **change)


def test_an_evaluation_set_asks_in_its_benchmarks_words_and_scores(table, row):
    reader = EvaluationSet("MMBench", table([HEADER, row(hint="Look.")]))
    (record,) = reader
    assert record.task == "mmbench"
    assert record.prompt.startswith("Hint: Look.\nWhich?\nA. dog\nB. cat\n")
    assert (reader.score("(A)", record), reader.score("B", record), reader.score("", record)) == (1.0, 0.0, 0.0)


def test_records_can_be_kept_and_opened_in_any_order(table, row):
    records = list(Tsv(table([HEADER, *(row(str(number)) for number in range(20))])))
    assert {record.image().size for record in reversed(records)} == {(8, 6)}
