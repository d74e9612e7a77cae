"""Rows that show several pictures or a video: lists of files, folders of frames, and what is wrong with others."""

from __future__ import annotations

import json

import pytest
from PIL import Image

from vispco.data.files.json_files import Jsonl, LlavaInstruct
from vispco.data.files.tsv import Tsv

COLORS = ("red", "green", "blue")


@pytest.fixture
def folder(tmp_path):
    """clip/1.png, clip/2.png, clip/10.png in three colours, and notes that are no frame."""
    (tmp_path / "clip").mkdir()
    for name, color in zip(("1", "2", "10"), COLORS, strict=True):
        Image.new("RGB", (8, 6), color).save(tmp_path / "clip" / f"{name}.png")
    (tmp_path / "clip" / "notes.txt").write_text("not a frame")
    (tmp_path / "empty").mkdir()
    return tmp_path


def lines(folder, *rows):
    path = folder / "data.jsonl"
    path.write_text("\n".join(json.dumps({"question": "what?", "answer": "a", **row}) for row in rows))
    return Jsonl(path)


def first_pixels(record):
    return [image.getpixel((0, 0)) for image in record.images()]


RGB = [(255, 0, 0), (0, 128, 0), (0, 0, 255)]


def test_a_folder_is_a_video_in_the_order_of_its_names(folder):
    (record,) = lines(folder, {"video": "clip"})
    assert first_pixels(record) == RGB
    assert record.frames_per_second == 2.0
    (sample,) = record.samples()
    assert (sample.num_images, sample.frames_per_second, sample.area) == (3, 2.0, 3 * 48)


def test_a_list_of_frames_is_a_video_and_a_list_of_images_is_not(folder):
    names = [f"clip/{name}.png" for name in (10, 1)]
    video, pictures = lines(folder, {"video": names, "fps": 0.5}, {"image": names})
    assert first_pixels(video) == first_pixels(pictures) == [RGB[2], RGB[0]]
    assert (video.frames_per_second, pictures.frames_per_second) == (0.5, None)


@pytest.mark.parametrize("asked", ["<video>\nwhat?", "what?", [{"type": "video"}, {"type": "text", "text": "what?"}]])
def test_conversations_about_videos(folder, asked):
    path = folder / "data.json"
    talk = [{"from": "human", "value": asked}, {"from": "gpt", "value": "a"}]
    path.write_text(json.dumps([{"id": "x", "video": "clip", "conversations": talk}]))
    (record,) = LlavaInstruct(path)
    assert record.turns[0].instruction == "what?"
    assert (len(record.handles), record.frames_per_second) == (3, 2.0)


def test_tables_have_a_column_for_videos(folder):
    path = folder / "data.tsv"
    frames = json.dumps(["clip/2.png", "clip/1.png"])
    quoted = '"' + frames.replace('"', '""') + '"'
    path.write_text(f"index\tvideo\tfps\tquestion\tanswer\n1\tclip\t4\twhat?\ta\n2\t{quoted}\t\twhat?\ta\n")
    first, second = Tsv(path)
    assert (len(first.handles), first.frames_per_second) == (3, 4.0)
    assert (first_pixels(second), second.frames_per_second) == ([RGB[1], RGB[0]], 2.0)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ({"video": "film.mp4"}, "ffmpeg -i film.mp4 -vf fps=2 film/%05d.png"),
        ({"video": "nowhere"}, "the folder of frames 'nowhere' is not in"),
        ({"video": "empty"}, "holds no pictures"),
        ({"video": "clip", "image": "clip/1.png"}, "both an image and a video"),
        ({"video": "clip", "fps": "fast"}, "its fps is str 'fast'"),
        ({"video": "clip", "fps": -1}, "a number above 0"),
        ({"video": ["clip/1.png", "clip/3.png"]}, "image 'clip/3.png' is not in"),
        ({"video": {"path": "clip"}}, "a folder of frames or a list of files"),
        ({"video": ["clip/notes.txt"]}, "is not an image"),
    ],
)
def test_what_is_wrong_with_a_video_is_told(folder, row, why):
    records = lines(folder, {"image": "clip/1.png"}, row)
    assert len(list(records)) == 1
    assert why in records.report.listed[0].sentence


def test_frames_outside_of_the_picture_folder_are_not_read(folder):
    inside = folder / "data"
    inside.mkdir()
    Image.new("RGB", (4, 4)).save(inside / "one.png")
    (inside / "link").symlink_to(folder / "clip")
    for name in ("../clip", str(folder / "clip"), "link"):
        records = lines(inside, {"image": "one.png"}, {"video": name})
        assert len(list(records)) == 1
        assert "outside of the picture folder" in records.report.listed[0].sentence
