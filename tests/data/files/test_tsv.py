"""VLMEvalKit's tables: what their rows mean, and what becomes of rows that are broken."""

import base64
import json

import pytest
from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.data.files import Tsv
from vispco.metrics import METRICS, read_benchmarks


def read(reader):
    return list(reader), reader.report


def test_a_row_is_a_question_with_its_picture_options_and_answer(table, row, header):
    path = table([header, row("12", hint="Look left.", category="animals")])
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


def test_quotes_tabs_and_line_breaks_in_a_text_are_text(table, row, header):
    question = 'He said "what\tis\nthis" ""?\r\nSay "it"'
    ((record, second), _) = read(Tsv(table([header, row("1", question=question), row("2")])))
    assert record.question == question
    assert second.row == 2
    assert second.image().size == (8, 6)


def test_a_picture_may_be_that_of_another_row_before_or_after(table, row, header):
    rows = [row("1", image="3"), row("2"), row("3"), row("1000002", image="2"), row("1000001", image="1")]
    records, report = read(Tsv(table([header, *rows])))
    assert report.count == 0
    assert [record.image().size for record in records] == [(8, 6)] * 5


def test_rows_that_name_each_other_in_a_circle_are_skipped(table, row, header):
    _, report = read(Tsv(table([header, row("1", image="2"), row("2", image="1"), row("3")])))
    assert report.count == 2


def test_a_1_by_1_picture_shorter_than_an_index_limit_is_a_picture(table, row, encode, header):
    tiny = base64.b64encode(encode(Image.new("L", (1, 1)), "GIF")).decode()
    assert len(tiny) <= 64
    ((record,), _) = read(Tsv(table([header, row(image=tiny)])))
    assert record.image().size == (1, 1)


@pytest.mark.parametrize("write", [str, lambda cells: str(cells).replace("'", '"')])
def test_a_list_of_pictures(table, row, cell, write, header):
    ((record,), _) = read(Tsv(table([header, row(image=write([cell, cell]))])))
    assert [image.size for image in record.images()] == [(8, 6)] * 2


def test_data_urls_and_wrapped_base64_are_read(table, row, cell, header):
    wrapped = "\n".join(cell[start : start + 40] for start in range(0, len(cell), 40))
    records, _ = read(Tsv(table([header, row("1", f"data:image/png;base64,{cell}"), row("2", wrapped)])))
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


def test_a_row_that_refers_to_a_row_with_several_pictures_gets_them_all(table, row, cell, header):
    rows = [row("1", image=str([cell, cell, cell])), row("2", image="1"), row("3", image="4"), row("4", image="")]
    records, report = read(Tsv(table([header, *rows])))
    assert [len(record.images()) for record in records] == [3, 3]
    assert report.count == 2


def test_an_empty_answer_of_a_person_is_kept_because_people_are_counted(table, cell):
    answers = json.dumps(["cat"] * 3 + [""] * 7)
    path = table([["index", "image", "question", "answer"], ["1", cell, "What?", answers]])
    ((record,), _) = read(Tsv(path))
    assert record.references == ("cat",) * 3 + ("",) * 7
    assert record.turns[0].answer == "cat"
    assert METRICS.get("vqa")("cat", record) == pytest.approx((3 * 2 / 3 + 7) / 10)
    _, report = read(
        Tsv(
            table(
                [["index", "image", "question", "answer"], ["1", cell, "What?", '["", ""]'], ["2", cell, "What?", "a"]]
            )
        )
    )
    assert report.reasons == {"no answer": 1}


def test_answers_of_many_are_preferred_to_one_answer(table, cell):
    header = ["index", "image", "question", "answer", "answers"]
    path = table([header, ["1", cell, "What?", "cat", '["dog", "dog", "cat"]'], ["2", cell, "What?", "cat", ""]])
    (first, second), _ = read(Tsv(path))
    assert first.references == ("dog", "dog", "cat")
    assert second.references == ("cat",)


def test_a_literal_nan_is_no_hint_and_no_option(table, row, header):
    cells = row("1", hint="nan")
    cells[header.index("C")] = "NaN"
    ((record,), _) = read(Tsv(table([header, cells])))
    assert (record.hint, list(record.options)) == ("", ["A", "B"])


@pytest.mark.parametrize(
    ("name", "folder"),
    [
        ("MME_local.tsv", "MME"),
        ("MMBench_DEV_EN_local.tsv", "MMBench"),
        ("MMBench_DEV_EN_V11.tsv", "MMBench_V11"),
        ("SEEDBench_IMG.tsv", "SEEDBench_IMG"),
    ],
)
def test_a_local_table_finds_its_pictures_where_vlmevalkit_writes_them(tmp_path, table, png, name, folder):
    (tmp_path / "images" / folder).mkdir(parents=True)
    (tmp_path / "images" / folder / "a.png").write_bytes(png)
    path = table([["index", "image_path", "question", "answer"], ["1", "a.png", "What?", "cat"]], name=name)
    ((record,), report) = read(Tsv(path))
    assert (record.image().size, report.count) == ((8, 6), 0)


def test_wrong_arguments_are_refused_at_once(table, row, tmp_path, header):
    path = table([header, row()])
    for change, sentence in (
        ({"encoding": "nonsense"}, "Unknown encoding"),
        ({"encoding": "hex"}, "Unknown encoding"),
        ({"max_side": 0}, "max_side is 0"),
        ({"images": tmp_path / "none"}, "image folder"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            Tsv(path, **change)


def test_a_benchmarks_rows_are_asked_in_its_words_and_scored(table, row, header):
    (sample,) = read_benchmarks({"MMBench": table([header, row(hint="Look.")])})
    assert (sample.task, sample.record.task) == ("mmbench", "mmbench")
    assert sample.record.prompt == sample.question
    assert sample.question.startswith("Hint: Look.\nWhich?\nA. dog\nB. cat\n")
    assert (sample.score("(A)"), sample.score("B"), sample.score("")) == (1.0, 0.0, 0.0)


def test_records_can_be_kept_and_opened_in_any_order(table, row, header):
    records = list(Tsv(table([header, *(row(str(number)) for number in range(20))])))
    assert {record.image().size for record in reversed(records)} == {(8, 6)}
