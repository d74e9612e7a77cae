"""Each answer is worked out again from the marks of the scene, without the code that asked."""

import pytest

from vispco.data.dataset import compose, random_for
from vispco.data.scene import COLORS, SHAPES, WORDS


def scenes(task, count=60):
    for index in range(count):
        yield compose(task, "train", random_for("answers", task, index))


def named(scene, *words):
    return [m for m in scene.objects if all(word in (m.color, m.shape) for word in words)]


def words_of(question):
    singular = {f"{shape}s": shape for shape in SHAPES} | {"crosses": "cross"}
    words = [singular.get(word, word) for word in question.rstrip("?").split()]
    return [word for word in words if word in COLORS or word in SHAPES]


@pytest.mark.parametrize("task", ["attribute", "existence", "counting", "comparison", "position"])
def test_answers_about_objects_are_true(task):
    for scene, questions in scenes(task):
        for question, answer in questions:
            found = named(scene, *words_of(question))
            if task == "attribute":
                assert len(found) == 1
                assert answer == (found[0].color if "color" in question else found[0].shape)
            elif task == "existence":
                assert answer == ("yes" if found else "no")
            elif task == "counting":
                assert answer == str(len(found))
            elif task == "comparison":
                pick = max if "biggest" in question else min
                assert answer == pick(found, key=lambda mark: mark.size).color
            else:
                x, y = found[0].center
                row = "top" if y < 1 / 3 else "bottom" if y > 2 / 3 else ""
                column = "left" if x < 1 / 3 else "right" if x > 2 / 3 else ""
                assert len(found) == 1
                assert answer == (f"{row} {column}".strip() or "center")


def test_words_are_read_from_left_to_right():
    for scene, questions in scenes("word"):
        for question, answer in questions:
            color = words_of(question)[0]
            glyphs = sorted((m for m in scene.marks if m.char and m.color == color), key=lambda m: m.box[0])
            assert "".join(m.char for m in glyphs) == answer
            assert answer in WORDS


def test_the_height_of_a_bar_is_in_proportion_to_its_value():
    for scene, questions in scenes("chart"):
        heights = {m.color: m.box[3] - m.box[1] for m in scene.marks if m.kind == "bar"}
        for question, answer in questions:
            assert heights[words_of(question)[0]] == pytest.approx(0.68 * int(answer) / 99)


def test_table_entries_stand_where_their_headers_cross():
    for scene, questions in scenes("table"):
        glyphs = [m for m in scene.marks if m.char]
        for question, answer in questions:
            row_name, column_name = question.rstrip("?").split()[5], question.rstrip("?").split()[7]
            row = next(m for m in glyphs if m.row == row_name and not m.column)
            column = next(m for m in glyphs if m.column == column_name and not m.row)
            entry = [
                m
                for m in glyphs
                if abs(m.center[1] - row.center[1]) < 1e-6 and abs(m.center[0] - column.center[0]) < 1e-6
            ]
            assert [m.char for m in entry] == [answer]


def test_difficulty_fills_the_picture():
    few = sum(len(compose("existence", "train", random_for("d", i), 0.0)[0].objects) for i in range(40))
    many = sum(len(compose("existence", "train", random_for("d", i), 1.0)[0].objects) for i in range(40))
    assert many > 1.5 * few
