"""Every configuration of every space is a valid schedule, and lies in the budget where there is one."""

from __future__ import annotations

import itertools

import numpy as np
import optuna
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sweep.synthetic import fraction
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.core.schedule import Schedule
from vispco.kernels import KERNELS
from vispco.sweep import spaces
from vispco.sweep.spaces import CostRange
from vispco.sweep.spec import SweepSpec


def plan(strategy, space, num_layers=6, **options):
    return SweepSpec(space=space, strategy=strategy, num_layers=num_layers, **options).plan()


NAMES = ["single", "stages", "free", *(f"kernel:{name}" for name in KERNELS)]
SPACE = st.builds(spaces.get, st.sampled_from(NAMES), st.integers(2, 40))
SEED = st.integers(0, 2**32 - 1)


def is_valid(schedule: Schedule, layers: int) -> bool:
    r = schedule.retention
    falling = all(after <= before for before, after in itertools.pairwise(r))
    return len(r) == layers and r[0] == 1.0 and falling and min(r) >= 0.0


@settings(deadline=None, max_examples=150)
@given(SPACE, SEED)
def test_every_draw_is_a_valid_schedule(space, seed):
    assert is_valid(space.schedule(space.draw(np.random.default_rng(seed))), space.num_layers)


@settings(deadline=None, max_examples=60)
@given(SPACE, SEED)
def test_every_suggestion_is_a_valid_schedule(space, seed):
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=seed))
    assert is_valid(space.schedule(space.suggest(study.ask())), space.num_layers)


@settings(deadline=None, max_examples=100)
@given(SPACE, SEED, st.data())
def test_every_value_of_the_parameters_is_a_valid_schedule(space, seed, data):
    ends = {p.name: data.draw(st.sampled_from([p.low, p.high])) for p in space.parameters}
    assert is_valid(space.schedule(ends), space.num_layers)
    mixed = space.between(ends, space.draw(np.random.default_rng(seed)), data.draw(st.floats(0, 1)))
    assert is_valid(space.schedule(mixed), space.num_layers)


@settings(deadline=None, max_examples=60)
@given(
    st.sampled_from([name for name in NAMES if name != "kernel:multi-step"]),
    st.integers(12, 40),
    SEED,
    st.floats(0.3, 0.7),
    st.floats(0.01, 0.3),
)
def test_draws_meet_a_budget(name, layers, seed, low, width):
    """Kernels too, though steps are at whole layers; but for multi-step, which cannot prune before its first step."""
    cost_range = CostRange(spaces.get(name, layers), low, low + width, fraction)
    if name == "single" and not any(cost_range.contains(params) for params in cost_range.space.grid()):
        return
    params = cost_range.draw(np.random.default_rng(seed))
    assert low <= fraction(cost_range.space.schedule(params)) <= low + width


@pytest.mark.parametrize("name", ["free", "stages", "kernel:p-sigmoid", "kernel:steps"])
def test_even_a_narrow_and_cheap_budget_is_met(name):
    cost_range = CostRange(spaces.get(name, 36), 0.16, 0.161, fraction)
    for seed in range(10):
        assert 0.16 <= fraction(cost_range.space.schedule(cost_range.draw(np.random.default_rng(seed)))) <= 0.161


def test_the_papers_grid_has_700_configurations_in_one_order():
    space = spaces.get("single", 36)
    schedules = [space.schedule(params) for params in space.grid()]
    assert len(set(schedules)) == len(schedules) == 700
    assert schedules[0] == Schedule.single(1, 0.01, 36)
    assert schedules[21] == Schedule.single(2, 0.06, 36)
    assert schedules[-1] == Schedule.single(35, 0.96, 36)


def test_random_on_a_grid_draws_without_replacement_and_more_trials_only_add():
    space = spaces.get("single", 6)
    few = plan("random", "single", trials=30, seed=3).fixed
    many = plan("random", "single", trials=1000, seed=3).fixed
    assert many[:30] == few
    assert len({space.schedule(p) for p in many}) == len(many) == 100


def test_random_schedules_are_spread_over_costs():
    space = spaces.get("free", 36)
    costs = [fraction(space.schedule(p)) for p in plan("random", "free", 36, trials=200).fixed]
    assert min(costs) < 0.25
    assert max(costs) > 0.8


def test_what_cannot_be_is_refused():
    with pytest.raises(UnknownNameError, match="Unknown space 'double'"):
        spaces.get("double", 6)
    with pytest.raises(UnknownNameError, match="Unknown kernel 'sine'"):
        spaces.get("kernel:sine", 6)
    with pytest.raises(InvalidInputError, match="1 layers"):
        spaces.get("free", 1)
    with pytest.raises(UnknownNameError, match="Unknown strategy 'luck'"):
        plan("luck", "single", trials=3)
    with pytest.raises(InvalidInputError, match="trials=0 was given"):
        plan("random", "single", trials=0)
    with pytest.raises(InvalidInputError, match="say how many trials"):
        plan("tpe", "single")
    with pytest.raises(InvalidInputError, match="'free' is continuous"):
        plan("grid", "free")
    with pytest.raises(InvalidInputError, match="100 configurations and trials=7"):
        plan("grid", "single", trials=7)


def test_budgets_that_cannot_be_met_are_refused():
    single = spaces.get("single", 6)
    with pytest.raises(InvalidInputError, match=r"below the floor.*still costs 0.25"):
        CostRange(single, 0.0, 0.2, fraction)
    with pytest.raises(
        InvalidInputError, match=r"'kernel:multi-step' was found to cost between 0.3 and 0.4; they cost from"
    ):
        CostRange(spaces.get("kernel:multi-step", 12), 0.3, 0.4, fraction).draw(np.random.default_rng(0))
    with pytest.raises(InvalidInputError, match="0 <= low <= high <= 1"):
        CostRange(single, 0.6, 0.5, fraction)
    with pytest.raises(
        InvalidInputError, match=r"'single' was found to cost between 0.999 and 1; they cost from 0.2575 to 0.994"
    ):
        _ = CostRange(single, 0.999, 1.0, fraction).grid


@pytest.mark.parametrize("name", ["single", "stages", "free", "kernel:steps", "kernel:linear"])
@pytest.mark.parametrize("earliest_layer", [0, 1, 2])
def test_a_space_prunes_from_the_earliest_layer_of_its_scorer_on(name, earliest_layer):
    space = spaces.get(name, 6, earliest_layer)
    drawn = [space.schedule(space.draw(np.random.default_rng(seed))).retention for seed in range(64)]
    assert all(set(retention[:earliest_layer]) <= {1.0} for retention in drawn)
    assert any(retention[earliest_layer] < 1.0 for retention in drawn)


def test_the_grid_and_the_floor_follow_the_earliest_layer():
    assert [len(spaces.get("single", 36, earliest_layer).grid()) for earliest_layer in (1, 0)] == [700, 720]
    CostRange(spaces.get("single", 6, 0), 0.0, 0.11, fraction)
    with pytest.raises(InvalidInputError, match="from layer 1 on"):
        CostRange(spaces.get("single", 6, 1), 0.0, 0.11, fraction)
