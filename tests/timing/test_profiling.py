"""What a profile is fitted to: known parts are found again, and none is ever negative."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls

import vispco
from vispco.cost.time_profile import ProfileError
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.timing import profiling
from vispco.timing.profiling import (
    _falling_times,
    _fit_parts,
    _nonnegative_weights,
    _timed_schedules,
    profile_prompts,
)

LAYERS = 10
SIZES, ROW = np.array([1, 50, 100, 400]), np.array([0.5, 1.0, 1.8, 9.0])


def tokens():
    """Of a prompt of 20 text and 200 visual tokens under the schedules of a fit, the unpruned one first."""
    return np.array([(schedule.counts([200]) + 20)[0].tolist() for schedule in _timed_schedules(LAYERS)[:-1]])


@given(scale=st.floats(0.5, 2.0), fixed=st.floats(0.0, 20.0), drop=st.floats(0.0, 5.0))
def test_the_parts_that_made_the_times_are_found_again(scale, fixed, drop):
    drops = np.array([0, 1, 1, 2, 3])
    measured = scale * np.interp(tokens(), SIZES, ROW).sum(axis=-1) + fixed + drop * drops
    assert _fit_parts(tokens(), measured, SIZES, ROW) == pytest.approx((scale, fixed, drop), abs=1e-6)


@given(st.lists(st.floats(0.1, 100.0), min_size=5, max_size=5))
def test_no_times_give_a_negative_part(measured):
    scale, fixed, drop = _fit_parts(tokens(), np.array(measured), SIZES, ROW)
    assert scale > 0
    assert fixed >= 0
    assert drop >= 0


@pytest.fixture(scope="module")
def prompts():
    model, processor = vispco.load("tiny-llava")
    return model, {1: encode(model, processor, dataset("test", limit=1)[:1])}


def disturbed(monkeypatch, calls):
    """Layers with 8 tokens seem to take a hundred times as long in the first calls, as beside other processes."""
    seen, time_layers = [], profiling._time_layers

    def time(model, layers, batch, size):
        seconds = time_layers(model, layers, batch, size)
        seen.append(size)
        return 100 * seconds if size == 8 and len(seen) <= calls else seconds

    monkeypatch.setattr(profiling, "_time_layers", time)


def test_times_that_cannot_be_true_are_measured_again(prompts, monkeypatch):
    disturbed(monkeypatch, calls=12)  # two sizes, a round that warms up and one that counts, each timed three times
    told = []
    found = profile_prompts(*prompts, tokens=(8, 64), rounds=1, on_progress=lambda *step: told.append(step[2]))
    assert any(text.startswith("measured again, since a layer takes") for text in told)
    assert not found.faults()


def test_a_machine_that_never_gives_true_times_gets_a_sentence_and_no_profile(prompts, monkeypatch):
    disturbed(monkeypatch, calls=10**6)
    with pytest.raises(
        ProfileError, match=r"No profile was kept: after 3 measurements .* with up to 8 and .* with more tokens.*rounds"
    ):
        profile_prompts(*prompts, tokens=(8, 64), rounds=1)


def test_one_disturbed_size_is_smoothed_and_a_fall_of_all_is_refused():
    sizes = (8, 16, 32, 64, 128, 256)
    assert _falling_times(sizes, (1.0, 9.0, 1.1, 1.2, 2.0, 4.0), 1) == []
    assert "9 ms with up to 32 and 1 ms with more" in _falling_times(sizes, (9.5, 9.0, 8.0, 1.5, 1.0, 0.5), 1)[0]


@pytest.mark.parametrize("layers", [2, 3, 10, 36])
def test_most_drops_are_timed_together(layers):
    assert (np.diff(_timed_schedules(layers)[-1].retention) < 0).sum() == min(layers - 1, 8)


@given(st.integers(0, 10_000), st.integers(3, 8))
def test_weights_are_those_of_an_independent_solver(seed, runs):
    rng = np.random.default_rng(seed)
    columns, target = rng.normal(size=(runs, 3)), rng.normal(size=runs)
    assert _nonnegative_weights(columns, target) == pytest.approx(nnls(columns, target)[0], abs=1e-8)


@pytest.mark.parametrize("layers", [1, 2, 3, 10, 36])
def test_schedules_of_a_fit_suit_any_depth(layers):
    for schedule in _timed_schedules(layers):
        assert len(schedule.retention) == layers
        assert schedule.retention[0] == 1.0
