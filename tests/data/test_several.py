"""Drawn tasks about two pictures and about short videos."""

from __future__ import annotations

import pytest

from vispco.core.errors import UnknownNameError
from vispco.data import dataset, select
from vispco.data.dataset import SEVERAL, SPLITS, TASKS, random_for
from vispco.data.several import FRAMES, ClipTask, PairTask
from vispco.data.tasks import count_of

DRAWS = 40


def shown(task, split, number):
    return task.show(random_for(split, number), SPLITS[split])


@pytest.mark.parametrize("split", SPLITS)
def test_two_pictures_have_one_thing_to_be_asked_for(split):
    places = set()
    for number in range(DRAWS):
        found = shown(PairTask(), split, number)
        assert (len(found.scenes), found.frames_per_second) == (2, None)
        assert all(scene.fingerprint % 16 in SPLITS[split] for scene in found.scenes)
        question, answer = found.question
        kind, other = ("shape", "color") if "color" in question else ("color", "shape")
        value = next(word for word in question.rstrip("?").split()[::-1] if word in {getattr(m, kind) for s in found.scenes for m in s.objects})  # fmt: skip
        marks = [
            (n, mark) for n, scene in enumerate(found.scenes) for mark in scene.objects if getattr(mark, kind) == value
        ]
        assert len(marks) == 1
        assert getattr(marks[0][1], other) == answer
        places.add(marks[0][0])
    assert places == {0, 1}


def test_a_video_shows_the_thing_for_an_even_number_of_frames():
    lengths = set()
    for number in range(DRAWS):
        found = shown(ClipTask(), "test", number)
        assert len(found.scenes) == FRAMES
        kind, value = found.scenes[0].subject
        there = [count_of(scene, kind)[value] for scene in found.scenes]
        assert set(there) == {0, 1}
        first, seen = there.index(1), sum(there)
        assert there[first : first + seen] == [1] * seen
        assert first % 2 == seen % 2 == 0
        assert all(0 <= edge <= 1 for scene in found.scenes for mark in scene.objects for edge in mark.box)
        lengths.add(seen)
    assert lengths == {2, 4}


def test_things_move_from_frame_to_frame():
    scenes = shown(ClipTask(), "train", 1).scenes
    places = [scene.objects[-1].box for scene in scenes]
    assert len(set(places)) == FRAMES


def test_they_are_there_for_who_asks():
    assert select("several") == ["pair", "clip"] == list(SEVERAL)
    assert select("all") == list(TASKS)
    assert not set(SEVERAL) & set(select("all"))
    assert select("clip,word") == ["clip", "word"]
    with pytest.raises(UnknownNameError, match="pair"):
        select("pears")


def test_samples_are_the_same_again_and_score_themselves():
    first, again = (dataset("test", "several", 2) for _ in range(2))
    for a, b in zip(first, again, strict=True):
        assert (a, [i.tobytes() for i in a.images]) == (b, [i.tobytes() for i in b.images])
        assert a.score(a.answer) == 1.0
    assert [sample.task for sample in first] == ["pair", "clip"] * 2
    assert first[1].frames_per_second == 2.0
    assert (first[0].num_images, first[1].num_images) == (2, FRAMES)
    assert first[1].with_images(first[1].images[:2]).frames_per_second == 2.0
