"""The index arithmetic of the engine, against loops."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco.core.indexing import take
from vispco.engine.gather import Stage, gather_mask, merge, next_stage, restore, spread
from vispco.scorers import top_tokens


@st.composite
def ragged(draw):
    """Scores with ties, live tokens and counts of a small batch."""
    b, v = draw(st.integers(1, 3)), draw(st.integers(1, 8))
    scores = torch.tensor(
        draw(st.lists(st.lists(st.sampled_from([0.0, 0.5, 1.0, 2.0]), min_size=v, max_size=v), min_size=b, max_size=b))
    )
    live = torch.tensor(draw(st.lists(st.lists(st.booleans(), min_size=v, max_size=v), min_size=b, max_size=b)))
    counts = torch.tensor([draw(st.integers(0, int(row.sum()))) for row in live])
    return scores, live, counts


@given(ragged())
def test_top_tokens_are_the_best_live_ones_and_ties_go_to_the_earlier(case):
    scores, live, counts = case
    keep = top_tokens(scores, live, counts)
    for s, alive, k, found in zip(scores, live, counts, keep, strict=True):
        order = sorted((i for i in range(len(s)) if alive[i]), key=lambda i: (-float(s[i]), i))
        assert found.nonzero()[:, 0].tolist() == sorted(order[: int(k)])


@settings(max_examples=60)
@given(st.data())
def test_stages_pack_kept_tokens_in_order_at_the_right_end(data):
    b, n = data.draw(st.integers(1, 3)), data.draw(st.integers(2, 10))
    first = torch.tensor(data.draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=b, max_size=b)))
    first[:, -1] = True
    second = first & torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=n, max_size=n), min_size=b, max_size=b))
    )
    second[:, -1] = True
    x = torch.arange(b * n).view(b, n, 1).float()
    stage, hidden = None, x
    for keep in (first, second):
        counts = keep.sum(-1).tolist()
        here = keep if stage is None else keep.gather(1, stage.positions)
        if stage is not None and stage.valid is not None:
            here = here & stage.valid
        stage, local = next_stage(here.byte(), stage, max(counts), exact=min(counts) == max(counts))
        hidden = take(hidden, local)
        assert torch.equal(hidden, take(x, stage.positions))
        for row, positions, count in zip(keep, stage.positions.tolist(), counts, strict=True):
            assert positions[len(positions) - count :] == row.nonzero()[:, 0].tolist()
            assert len(set(positions)) == len(positions)
        if stage.valid is not None:
            assert stage.valid.sum(-1).tolist() == counts
    back = restore(hidden, stage, n)
    assert torch.equal(back[second], x[second])


def test_spread_leaves_out_the_place_that_is_none():
    base = torch.zeros(1, 3, dtype=torch.long)
    assert spread(torch.tensor([[7, 8]]), torch.tensor([[1, 3]]), base).tolist() == [[0, 7, 0]]


def test_masks_are_cut_to_rows_and_keys_and_nobody_sees_fill():
    causal = torch.ones(4, 4, dtype=torch.bool).tril()[None, None]
    stage = Stage(torch.tensor([[1, 3], [2, 3]]), torch.tensor([[False, True], [True, True]]))
    for mask in (causal, torch.where(causal, 0.0, torch.finfo(torch.float32).min), None):
        cut = gather_mask(mask, stage.positions, stage.positions, rows=stage.positions, valid=stage.valid)
        allowed = cut if cut.dtype == torch.bool else cut == 0
        assert allowed[:, 0].tolist() == [[[True, False], [False, True]], [[True, False], [True, True]]]


def test_a_mask_that_begins_late_hides_what_lies_before_it():
    window = torch.ones(1, 1, 1, 3, dtype=torch.bool)
    slots = torch.tensor([[0, 4, 5, 6]])
    cut = gather_mask(window, slots, torch.tensor([[6]]), offset=4)
    assert cut[0, 0, 0].tolist() == [False, True, True, True]


def test_flash_masks_stay_flat():
    flat = torch.tensor([[False, True, True, True]])
    left = torch.tensor([[0, 2, 3]])
    cut = gather_mask(flat, left, left, rows=left)
    assert cut.tolist() == [[False, True, True]]


def test_merging_takes_the_mean_of_all_that_join():
    hidden = torch.tensor([[[1.0], [3.0], [10.0], [5.0]]])
    assert merge(hidden, torch.tensor([[1, 1, -1, -1]]), torch.ones(1, 4)).flatten().tolist() == [1.0, 2.0, 10.0, 5.0]
