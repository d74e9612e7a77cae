"""Schedule: what it accepts, what it says when it does not, and the whole tokens it gives."""

import json
import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco import kernels
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule

LAW = settings(max_examples=100, deadline=None)
curves = st.lists(st.floats(0, 1), min_size=1, max_size=12).map(lambda r: tuple(sorted(r, reverse=True)))
grids = st.integers(1, 6).flatmap(
    lambda L: st.lists(
        st.lists(st.floats(0, 1), min_size=L, max_size=L).map(lambda r: tuple(sorted(r, reverse=True))),
        min_size=1,
        max_size=4,
    ).map(tuple)
)


@LAW
@given(st.one_of(curves, grids))
def test_json_round_trip_is_the_identity(retention):
    schedule = Schedule(retention)
    again = Schedule.from_dict(json.loads(json.dumps(schedule.to_dict())))
    assert again == schedule
    assert hash(again) == hash(schedule)


@LAW
@given(curves, st.lists(st.integers(0, 3000), min_size=1, max_size=4))
def test_counts_are_rounded_halves_up_and_never_grow(retention, num_visual):
    counts = Schedule(retention).counts(num_visual)
    assert counts.shape == (len(num_visual), len(retention))
    assert counts.dtype == torch.int64
    for row, N in zip(counts.tolist(), num_visual, strict=True):
        for i, r in enumerate(retention):
            exact = Fraction(r) * N
            assert row[i] in {
                math.floor(exact + Fraction(1, 2)),
                math.floor(exact + Fraction(1, 2) + Fraction(1, 10**5)),
            }
            assert i == 0 or row[i] <= row[i - 1]
            assert row[i] <= N


def test_floating_point_noise_does_not_move_a_count():
    assert Schedule((1.0, 0.7 - 0.4, 0.3)).counts([5]).tolist() == [[5, 2, 2]]  # 0.7 - 0.4 = 0.29999999999999993
    assert Schedule((0.1 + 0.2, 0.3)).counts([5, 15]).tolist() == [[2, 2], [5, 5]]
    assert Schedule((0.3, 0.1 + 0.2)).retention == (0.3, 0.3)  # noise upwards is removed, not refused


@LAW
@given(grids, st.data())
def test_counts_of_from_counts_are_the_counts(retention, data):
    num_visual = data.draw(st.lists(st.integers(0, 5000), min_size=len(retention), max_size=len(retention)))
    counts = Schedule(retention).counts(num_visual)
    assert torch.equal(Schedule.from_counts(counts, num_visual).counts(num_visual), counts)
    one = Schedule.from_counts(counts[0], num_visual[0])
    assert not one.per_sample
    assert torch.equal(one.counts(num_visual[:1]), counts[:1])


def test_known_shapes():
    assert Schedule.full(3).retention == (1.0, 1.0, 1.0)
    assert Schedule.single(layer=2, keep=0.5, num_layers=4).retention == (1.0, 1.0, 0.5, 0.5)
    assert Schedule.withdraw(layer=1, num_layers=3).retention == (1.0, 0.0, 0.0)
    pyramid = (1.0, 0.5, 0.5, 0.25)
    assert Schedule.stages({3: 0.25, 1: 0.5}, 4).retention == pyramid
    assert Schedule.stages([(1, 0.5), (3, 0.25)], 4).retention == pyramid
    single = kernels.get("single")
    params = single.initial(6, layer=2, r=0.5)
    hard = Schedule.from_kernel(single, params, 6, gamma=math.inf)
    assert hard.counts([100]).tolist() == [[100, 100, 50, 50, 50, 50]]
    assert Schedule.from_kernel(single, params.expand(2, -1), 6).batch_size == 2


def test_shape_properties():
    one, each = Schedule((1.0, 0.5)), Schedule(((1.0, 0.5), (1.0, 0.2), (0.1, 0.1)))
    assert (one.num_layers, one.per_sample, one.batch_size, tuple(one.tensor().shape)) == (2, False, None, (2,))
    assert (each.num_layers, each.per_sample, each.batch_size, tuple(each.tensor().shape)) == (2, True, 3, (3, 2))
    assert one.tensor().dtype == torch.float64


@pytest.mark.parametrize(
    ("retention", "words"),
    [
        ((1.0, 1.2), "layer 1 is 1.2"),
        ((1.0, -0.1), "layer 1 is -0.1"),
        ((1.0, float("nan")), "layer 1 is nan"),
        ((1.0, "half"), "layer 1 is 'half'"),
        ((1.0, 0.5, 0.6), "grows from 0.5 at layer 1 to 0.6 at layer 2"),
        (((1.0, 0.5), (1.0, 0.5, 0.2)), "same number of layers"),
        (((1.0, 0.5), (0.5, 1.0)), "of sample 1 grows"),
        ((), "one number per layer"),
        (((), ()), "empty"),
        (0.5, "one number per layer"),
    ],
)
def test_what_is_wrong_is_named(retention, words):
    with pytest.raises(InvalidInputError, match=words):
        Schedule(retention)


def test_other_mistakes_are_named():
    with pytest.raises(InvalidInputError, match="holds 2 samples and the batch has 3"):
        Schedule(((1.0,), (1.0,))).counts([1, 2, 3])
    with pytest.raises(InvalidInputError, match="0 or more"):
        Schedule((1.0,)).counts([-1])
    with pytest.raises(InvalidInputError, match="Layer 4 was given"):
        Schedule.single(4, 0.5, 4)
    with pytest.raises(InvalidInputError, match="Name each layer once"):
        Schedule.stages([(1, 0.5), (1, 0.4)], 4)
    with pytest.raises(InvalidInputError, match="B numbers"):
        Schedule.from_counts(torch.ones(2, 3), 4)


def test_a_file_survives_and_a_bad_one_is_explained(tmp_path):
    path = tmp_path / "runs" / "schedule.json"
    schedule = Schedule(((1.0, 0.1 + 0.2), (0.5, 1 / 3)))
    schedule.save(path)
    schedule.save(path)
    assert Schedule.load(path) == schedule
    assert [file.name for file in path.parent.iterdir()] == ["schedule.json"]
    path.write_text(json.dumps({**schedule.to_dict(), "version": 99, "from the future": True}))
    assert Schedule.load(path) == schedule
    for text, words in (("{", "not JSON"), ("[1.0]", "not a schedule"), ('{"retention": 1}', "not a schedule")):
        path.write_text(text)
        with pytest.raises(InvalidInputError, match=words):
            Schedule.load(path)
    with pytest.raises(InvalidInputError, match="cannot be read"):
        Schedule.load(tmp_path / "missing.json")
