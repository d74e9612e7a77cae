"""A path is enough: the reader follows from what is there."""

import json

import pytest

from vispco.core.errors import InvalidInputError
from vispco.data.files import Jsonl, LlavaInstruct, Tsv, open_data


@pytest.mark.parametrize(
    ("name", "reader"), [("a.json", LlavaInstruct), ("a.jsonl", Jsonl), ("a.NDJSON", Jsonl), ("a.tsv", Tsv)]
)
def test_the_reader_follows_from_the_name(tmp_path, name, reader):
    (tmp_path / name).touch()
    assert type(open_data(tmp_path / name)) is reader
    assert type(open_data(tmp_path)) is reader


def test_a_folder_with_a_file_and_its_images_is_enough(tmp_path, png, talk):
    (tmp_path / "images").mkdir()
    (tmp_path / "images" / "a.png").write_bytes(png)
    (tmp_path / "train.json").write_text(json.dumps([talk("a", "b", image="a.png")]))
    (record,) = open_data(tmp_path)
    assert (record.task, record.image().size) == ("instruct", (8, 6))


def test_a_saved_dataset_is_known(tmp_path, png):
    datasets = pytest.importorskip("datasets")
    (tmp_path / "a.png").write_bytes(png)
    datasets.Dataset.from_dict({"image": ["a.png"], "question": ["q"], "answer": ["x"]}).save_to_disk(
        str(tmp_path / "d")
    )
    (record,) = open_data(tmp_path / "d")
    assert record.image().size == (8, 6)


def test_what_cannot_be_opened_says_what_can(tmp_path):
    (tmp_path / "a.xlsx").touch()
    for path, sentence in (
        (tmp_path / "none.json", "does not exist"),
        (tmp_path / "a.xlsx", "no known kind"),
        (tmp_path, "it holds none"),
    ):
        with pytest.raises(InvalidInputError, match=sentence):
            open_data(path)
    (tmp_path / "a.json").touch()
    (tmp_path / "b.json").touch()
    with pytest.raises(InvalidInputError, match=r"it holds a\.json, b\.json"):
        open_data(tmp_path)
