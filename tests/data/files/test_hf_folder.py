"""A folder of the `datasets` package: columns found by name, pictures decoded by us, bad rows counted."""

import sys

import pytest
from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.data.files import HfFolder, Turn

datasets = pytest.importorskip("datasets")


@pytest.fixture
def saved(tmp_path):
    def save(columns, features=None):
        dataset = datasets.Dataset.from_dict(columns, features=features)
        dataset.save_to_disk(str(tmp_path / "saved"))
        return tmp_path / "saved"

    return save


def picture_features(**names):
    return datasets.Features({**{name: datasets.Value("string") for name in names}, "image": datasets.Image()})


@pytest.fixture
def questions(saved):
    columns = {"image": [Image.new("RGB", (8, 6))] * 2, "query": ["What?", "Who?"], "label": ["cat", "Ann"]}
    return saved(columns, picture_features(query=1, label=1))


def test_columns_are_found_by_name(questions):
    first, second = HfFolder(questions)
    assert (first.turns, first.references) == ((Turn("What?", "cat", (0,)),), ("cat",))
    assert (second.id, second.row, second.image().size) == ("saved/2", 2, (8, 6))
    assert first.area() == 48


def test_columns_of_other_names_are_refused(saved):
    columns = {"image": [Image.new("L", (3, 3))], "ask": ["What?"], "say": ["cat"], "id": [7]}
    features = datasets.Features(
        {
            "ask": datasets.Value("string"),
            "say": datasets.Value("string"),
            "image": datasets.Image(),
            "id": datasets.Value("int64"),
        }
    )
    folder = saved(columns, features)
    with pytest.raises(InvalidInputError, match=r"neither conversations nor a question .* say, id\. Rename"):
        HfFolder(folder)


def test_conversations_and_several_pictures(saved):
    turns = [[{"from": "human", "value": "<image><image> Which?"}, {"from": "gpt", "value": "this"}]]
    images = datasets.List(datasets.Image())
    message = datasets.List({"from": datasets.Value("string"), "value": datasets.Value("string")})
    features = datasets.Features({"images": images, "conversations": message})
    (record,) = HfFolder(saved({"images": [[Image.new("RGB", (2, 2))] * 2], "conversations": turns}, features))
    assert [image.size for image in record.images()] == [(2, 2)] * 2
    assert record.turns[0].answer == "this"


def test_pictures_may_be_file_names(saved, tmp_path, png):
    (tmp_path / "a.png").write_bytes(png)
    folder = saved({"image": ["a.png", "gone.png", None], "question": ["q"] * 3, "answer": ["x"] * 3})
    reader = HfFolder(folder, tmp_path)
    assert [record.image().size for record in reader] == [(8, 6)]
    assert dict(reader.report.reasons) == {"missing image": 1, "no image": 1}


def test_broken_pictures_and_empty_answers_are_skipped(saved, png):
    cells = [{"bytes": data, "path": None} for data in (png, b"not a picture", png)]
    features = picture_features(question=1, answer=1)
    reader = HfFolder(saved({"image": cells, "question": ["q"] * 3, "answer": ["x", "x", ""]}, features))
    assert [record.row for record in reader] == [1]
    assert dict(reader.report.reasons) == {"broken image": 1, "no answer": 1}
    assert "row 2" in reader.report.listed[0].sentence


def test_splits_are_chosen_or_named(tmp_path, questions):
    dataset = datasets.load_from_disk(str(questions))
    datasets.DatasetDict({"a": dataset, "b": dataset}).save_to_disk(str(tmp_path / "two"))
    assert len(list(HfFolder(tmp_path / "two" / "b"))) == 2
    with pytest.raises(InvalidInputError, match=r"several splits: a, b\. Give the folder of one: .*two/a"):
        HfFolder(tmp_path / "two")


def test_a_folder_of_something_else_says_so(tmp_path, saved):
    with pytest.raises(InvalidInputError, match="save_to_disk"):
        HfFolder(tmp_path)
    with pytest.raises(InvalidInputError, match=r"no image column\. Its columns: question, answer"):
        HfFolder(saved({"question": ["q"], "answer": ["a"]}))


def test_without_the_package_it_says_what_to_install(questions, monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(InvalidInputError, match="pip install datasets"):
        HfFolder(questions)
