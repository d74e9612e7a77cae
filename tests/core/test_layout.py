"""A layout says where tokens are, whatever the padding."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout

V, T, P = 2, 1, 0  # visual, text, padding


def layout(*rows, answers=None, image_sizes=None):
    table = torch.tensor(rows)
    marks = None if answers is None else torch.tensor(answers)
    return TokenLayout.build(table == V, table != P, answers=marks, image_sizes=image_sizes)


def test_counts_leave_padding_out():
    found = layout([P, T, V, V, T], [T, V, T, P, P])
    assert found.num_visual == (2, 1)
    assert found.num_text == (2, 2)


@pytest.mark.parametrize(("row", "query"), [([P, T, V, T], 3), ([T, V, T, P], 2), ([T, T, V, V], 3)])
def test_the_query_is_the_last_real_token_wherever_the_padding_is(row, query):
    assert layout(row).query.tolist() == [query]


def test_the_query_is_never_an_answer():
    found = layout([T, V, V, T, T, T, T], answers=[[0, 0, 0, 0, 0, 1, 1]])
    assert found.query.tolist() == [4]
    assert found.instruction_index.tolist() == [[3, 4]]


def test_instruction_rows_are_text_after_the_first_picture():
    found = layout([T, T, V, T, V, T, P], [T, V, T, P, P, P, P])
    assert found.instruction_index.tolist() == [[3, 5], [2, 7]]


def test_a_picture_at_the_end_is_queried_by_the_last_token():
    assert layout([T, T, V, V]).instruction_index.tolist() == [[3]]


def test_visual_slots_are_packed_and_padded_with_the_length():
    found = layout([T, V, V, V, T], [V, T, T, V, P])
    assert found.visual_index.tolist() == [[1, 2, 3], [0, 3, 5]]
    assert found.is_visual_slot.tolist() == [[True] * 3, [True, True, False]]


def test_images_are_told_apart_by_their_sizes_or_by_the_text_between_them():
    rows = ([V, V, V, V, T, V, V], [T, V, V, T, P, P, P])
    assert layout(*rows).image_index.tolist() == [[0, 0, 0, 0, 1, 1], [2, 2, -1, -1, -1, -1]]
    sized = layout(*rows, image_sizes=((1, 2, 1), (1, 1, 2), (1, 1, 2), (1, 2, 1)))
    assert sized.image_index.tolist() == [[0, 0, 1, 1, 2, 2], [3, 3, -1, -1, -1, -1]]
    assert sized.coordinates[0].tolist() == [[0, 0, 0], [0, 1, 0], [0, 0, 0], [0, 0, 1], [0, 0, 0], [0, 0, 1]]
    assert layout(*rows).coordinates is None


def test_a_sample_of_padding_alone_is_refused():
    with pytest.raises(InvalidInputError, match="Sample 1"):
        layout([T, V], [P, P])


@given(st.lists(st.lists(st.sampled_from([V, T]), min_size=1, max_size=12), min_size=1, max_size=4), st.booleans())
def test_packing_agrees_with_a_loop(rows, left):
    width = max(map(len, rows))
    padded = [[P] * (width - len(r)) + r if left else r + [P] * (width - len(r)) for r in rows]
    found = layout(*padded)
    for b, row in enumerate(padded):
        positions = [i for i, t in enumerate(row) if t == V]
        assert [i for i in found.visual_index[b].tolist() if i < width] == positions
        assert found.num_visual[b] == len(positions)
        assert found.query[b] == max(i for i, t in enumerate(row) if t != P)


def test_visual_tokens_whose_output_is_read_are_known():
    visual = torch.tensor([[False, True, True], [True, True, False]])
    found = TokenLayout.build(visual)
    assert found.num_read == (1, 0)
    assert found.read_slots.tolist() == [[False, True], [False, False]]
    assert TokenLayout.build(visual[1:]).read_slots is None
    named = TokenLayout.build(visual, read=torch.tensor([[True, True, False], [True, False, True]]))
    assert named.num_read == (2, 1)
    assert named.read_slots.tolist() == [[True, True], [True, False]]


def test_the_last_token_is_that_before_the_padding():
    found = layout([T, V, V, P], [V, T, V, T])
    assert found.num_read == (1, 0)
    assert found.read_slots.tolist() == [[False, True], [False, False]]
