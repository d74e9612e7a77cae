import collections

import numpy as np
import pytest

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.data import TASKS, dataset, select
from vispco.data.dataset import SPLITS, compose, random_for


def test_there_are_eight_tasks_in_three_groups():
    groups = collections.Counter(task.group for task in TASKS.values())
    assert groups == {"seeing": 3, "reasoning": 2, "reading": 3}


def test_the_test_set_has_128_items_of_each_task():
    samples = dataset("test")
    assert len(samples) == 8 * 128
    assert samples[-1].id.endswith("/127")
    assert [sample.task for sample in samples[:8]] == list(TASKS)


@pytest.mark.parametrize("split", SPLITS)
def test_a_sample_is_the_same_every_time(split):
    once, again = dataset(split, limit=2), dataset(split)
    for index in range(16):
        assert once[index] == again[index]
        assert np.array_equal(np.asarray(once[index].image), np.asarray(again[index].image))


def test_a_sample_is_known_by_its_pixels_on_every_machine():
    first = dataset("test", "attribute")[0]
    other = dataset("test", "attribute", seed=1)[0]
    assert first.id == "test/attribute/0/0"
    assert first.scene.fingerprint != other.scene.fingerprint


def test_splits_cannot_share_a_picture():
    prints = {
        split: {compose(task, split, random_for(split, task, i))[0].fingerprint for task in TASKS for i in range(12)}
        for split in SPLITS
    }
    for split, residues in SPLITS.items():
        assert all(value % 16 in residues for value in prints[split])
    assert len({residue for residues in SPLITS.values() for residue in residues}) == sum(map(len, SPLITS.values()))
    assert not prints["test"] & prints["train"]
    assert not prints["test"] & prints["calibration"]


def test_areas_vary_tenfold_with_a_long_tail():
    rng = random_for("areas")
    areas = []
    for index in range(800):
        scene, _ = compose(list(TASKS)[index % 8], "train", rng)
        areas.append(scene.width * scene.height)
    areas = np.sort(np.asarray(areas, dtype=float))
    assert areas[-1] / areas[0] >= 10
    centred = areas - areas.mean()
    assert (centred**3).mean() / areas.std() ** 3 > 1  # skewed to the right
    assert np.median(areas) < areas.mean()


@pytest.mark.parametrize(("task", "most"), [("existence", 0.6), ("counting", 0.3), ("attribute", 0.2), ("position", 0.25),
                                            ("comparison", 0.25), ("word", 0.1), ("chart", 0.1), ("table", 0.25)])  # fmt: skip
def test_no_answer_is_a_good_guess(task, most):
    answers = [compose(task, "train", random_for("guess", task, i))[1][0][1] for i in range(300)]
    assert collections.Counter(answers).most_common(1)[0][1] / len(answers) <= most


def test_a_question_is_about_a_small_part_of_the_picture():
    for sample in dataset("test", "word,table", limit=8):
        scene = sample.scene
        wanted = [mark for mark in scene.marks if mark.char and mark.char in sample.answer]
        area = sum((m.box[2] - m.box[0]) * (m.box[3] - m.box[1]) for m in wanted[: len(sample.answer)])
        assert area < 0.25


def test_everything_stands_inside_the_picture():
    for index in range(160):
        scene, _ = compose(list(TASKS)[index % 8], "train", random_for("inside", index))
        for mark in scene.marks:
            if mark.kind in ("object", "glyph", "sign"):
                assert -0.03 <= min(mark.box) <= max(mark.box) <= 1.03, mark


def test_tasks_are_selected_by_name_group_or_all():
    assert select("all") == list(TASKS)
    assert select("reading") == ["word", "chart", "table"]
    assert select("chart, word") == ["chart", "word"]
    assert select(["seeing", "position"]) == ["attribute", "position", "existence"]


def test_unknown_names_list_the_known_ones():
    with pytest.raises(UnknownNameError, match="attribute, chart"):
        dataset("test", "colour")
    with pytest.raises(UnknownNameError, match="calibration, test, train"):
        dataset("validation")
    with pytest.raises(InvalidInputError, match="1 or more"):
        dataset("test", limit=0)


def test_an_index_past_the_end_is_an_error_and_slices_are_lists():
    samples = dataset("test", "word", limit=3)
    with pytest.raises(IndexError):
        samples[3]
    assert [sample.id for sample in samples[1:]] == ["test/word/0/1", "test/word/0/2"]
