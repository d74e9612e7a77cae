"""Questions in the layouts that people and benchmarks' repositories have are read whole, by the same fields."""

import csv
import json

import pytest

from vispco.core.errors import InvalidInputError
from vispco.data.files import open_data
from vispco.metrics import METRICS, read_benchmarks


@pytest.fixture
def chartqa(tmp_path, png):
    """ChartQA's `test` folder as its repository has it."""
    folder = tmp_path / "test"
    (folder / "png").mkdir(parents=True)
    (folder / "tables").mkdir()
    for name in ("1.png", "2.png"):
        (folder / "png" / name).write_bytes(png)
    for part, number in (("human", 3), ("augmented", 2)):
        items = [
            {"imgname": f"{n % 2 + 1}.png", "query": f"How many {n}?", "label": f"{n}"} for n in range(1, number + 1)
        ]
        (folder / f"test_{part}.json").write_text(json.dumps(items))
    return folder


def test_chartqa_is_read_as_its_repository_has_it(chartqa):
    questions = read_benchmarks({"chartqa": chartqa})
    assert len(questions) == 5
    assert questions.skipped["chartqa"].count == 0
    assert len({question.id for question in questions}) == 5
    assert [question.answer for question in questions] == ["1", "2", "1", "2", "3"]  # augmented, then human
    assert questions[0].question == "How many 1?\nAnswer with a single word or phrase."
    assert questions[0].score("1.04") == 1.0  # relaxed accuracy


def test_ocrbench_is_read_as_published(tmp_path, png):
    pictures = tmp_path / "OCRBench_Images" / "IIIT5K" / "test"
    pictures.mkdir(parents=True)
    (pictures / "9.png").write_bytes(png)
    item = {"dataset_name": "IIIT5K", "id": 7, "image_path": "IIIT5K/test/9.png", "question": "what is written?"}
    formula = {**item, "answers": ["\\frac A b"], "type": "Handwritten Mathematical Expression Recognition"}
    items = [{**item, "answers": "CENTRE", "type": "Regular Text Recognition"}, formula]
    (tmp_path / "OCRBench.json").write_text(json.dumps(items))
    word, written = read_benchmarks({"ocrbench": tmp_path / "OCRBench.json"})
    assert word.score("It says Centre.") == 1.0
    assert (written.score("x=\\fracAb"), written.score("x=\\fracab")) == (1.0, 0.0)  # by the rule for formulas


ROWS = [
    {"image": "a.png", "question": "what color, please?", "answer": "red"},
    {"image": "a.png", "question": 'and the "other"?', "answer": "blue"},
]


def as_csv(path, png):
    with path.open("w", newline="") as stream:
        writer = csv.DictWriter(stream, ["image", "question", "answer"])
        writer.writeheader()
        writer.writerows(ROWS)


def as_parquet(path, png):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{**row, "image": {"bytes": png, "path": None}} for row in ROWS]
    parquet.write_table(pyarrow.Table.from_pylist(rows), path, row_group_size=1)


def as_jsonl(path, png):
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))


def as_json(path, png):
    path.write_text(json.dumps(ROWS))


@pytest.mark.parametrize("write", [as_csv, as_parquet, as_jsonl, as_json])
def test_the_same_questions_in_every_format(tmp_path, png, write):
    (tmp_path / "a.png").write_bytes(png)
    path = tmp_path / f"mine.{write.__name__.removeprefix('as_')}"
    write(path, png)
    questions = read_benchmarks({"mine": path})
    assert [(question.question, question.references) for question in questions] == [
        (row["question"], (row["answer"],)) for row in ROWS
    ]
    assert {question.task for question in questions} == {"mine"}
    assert [question.images[0].size for question in questions] == [(8, 6), (8, 6)]
    assert questions[0].score("It is red, I think.") == 1.0
    assert questions[0].score("It is reddish.") == 0.0


def test_a_folder_of_parquet_files_is_one_dataset(tmp_path, png):
    (tmp_path / "data").mkdir()
    for number in range(2):
        as_parquet(tmp_path / "data" / f"test-{number}.parquet", png)
    assert len(list(open_data(tmp_path))) == 4
    (tmp_path / "data" / "test-0.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(InvalidInputError, match="not a Parquet file, or is damaged"):
        open_data(tmp_path)


def test_questions_with_options_are_multiple_choice(tmp_path, png):
    (tmp_path / "a.png").write_bytes(png)
    row = {**ROWS[0], "options": ["blue", "red"], "answer": "B"}
    (tmp_path / "mine.jsonl").write_text(json.dumps(row))
    (sample,) = read_benchmarks({"mine": tmp_path / "mine.jsonl"})
    assert sample.question.splitlines()[1:] == ["A. blue", "B. red", "Answer with the letter of the right option only."]
    assert [sample.score(text) for text in ("B", "red", "A")] == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("metric", "prediction", "score"),
    [
        ("exact", " Top  Left. ", 1.0),
        ("exact", "the top left", 0.0),
        ("answer", "In the top left.", 1.0),
        ("answer", "topleft", 0.0),
        ("answer", "", 0.0),
    ],
)
def test_metrics_for_questions_of_ones_own(tmp_path, png, metric, prediction, score):
    (tmp_path / "a.png").write_bytes(png)
    (tmp_path / "mine.jsonl").write_text(json.dumps({**ROWS[0], "answers": ["top left", "above"], "answer": None}))
    (record,) = open_data(tmp_path / "mine.jsonl")
    assert METRICS.get(metric)(prediction, record) == score
