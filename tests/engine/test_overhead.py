"""What pruning adds, counted in operations and in waits for the device: exact figures, the same on every machine."""

from __future__ import annotations

from functools import cache

import pytest

import operation_counts as overhead
import vispco
from vispco import Pruner, Schedule
from vispco.core.small_arrays import all_on_devices
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.families import family_of
from vispco.pruner.joint_planner import JointPlanner

DROP = {"fastv": 60, "sparsevlm": 90, "fitprune": 110, "fitprune(site=entry)": 110, "v2drop": 60}
BEFORE = {"divprune": 90, "cdpruner": 120}
CHAINS = ("divprune", "fastv", "divprune+fastv", "cdpruner+sparsevlm")  # of the kinds that a joint search chooses


@cache
def loaded(name, prompts=8):
    """A shipped model, and a padded batch of prompts with pictures of different sizes."""
    model, processor = vispco.load(name)
    return (
        model,
        encode(model, processor, dataset("test", limit=1)[:prompts]).inputs,
        len(family_of(model).layers(model)),
    )


@cache
def unpruned():
    model, inputs, _ = loaded("tiny-qwen")
    return overhead.prefill(model, inputs)


@cache
def applied():
    model, inputs, layers = loaded("tiny-qwen")
    return overhead.prefill(model, inputs, Pruner("fastv", Schedule.full(layers)))


def planner_of_one_scorer():
    return JointPlanner(overhead.random_joint_predictor(loaded("tiny-qwen")[0], ("fastv",), anchors=12), 0.5)


def test_a_pruner_that_drops_nothing_adds_next_to_nothing():
    assert 0 < applied().number - unpruned().number <= 15


@pytest.mark.parametrize("scorer", DROP)
def test_a_drop_is_a_few_operations(scorer):
    model, inputs, layers = loaded("tiny-qwen")
    once = overhead.prefill(model, inputs, Pruner(scorer, Schedule.single(2, 0.5, layers)))
    assert 0 < once.number - applied().number <= DROP[scorer]
    twice = overhead.prefill(model, inputs, Pruner(scorer, Schedule.stages({2: 0.5, 5: 0.25}, layers)))
    assert 0 < twice.number - once.number <= DROP[scorer]
    assert 0 < (twice.waits - unpruned().waits).total() <= 2


@pytest.mark.parametrize("scorer", BEFORE)
def test_a_greedy_choice_before_the_language_model_is_a_few_operations(scorer):
    model, inputs, layers = loaded("tiny-qwen")
    for keep in (0.2, 0.8):  # it has as many steps as tokens that stay
        found = overhead.prefill(model, inputs, Pruner(scorer, Schedule.single(0, keep, layers)))
        assert 0 < found.number - applied().number <= BEFORE[scorer]
        assert (found.waits - unpruned().waits).total() == 1


@pytest.mark.parametrize("scorer", ["divprune", "vispruner", "aim-merge"])
def test_a_cut_of_the_tower_waits_once(scorer):
    """For which cells are left, pictures of all sizes together; and one prompt waits once for the sizes of its pictures."""
    model, inputs, layers = loaded("tiny-qwen")
    blocks = family_of(model).tower_shape(model).num_blocks
    waits = []
    for stages in ({1: 0.7}, {1: 0.7, 3: 0.5}):
        pruner = Pruner(f"{scorer}@tower.1+divprune", Schedule.full(layers).with_tower(stages, blocks))
        with all_on_devices():
            waits.append((overhead.prefill(model, inputs, pruner).waits - unpruned().waits).total())
    assert waits[1] - waits[0] == 1
    assert waits[0] <= 3


@pytest.mark.parametrize("scorer", ["divprune", "cdpruner"])
def test_a_device_chooses_hundreds_of_tokens_in_a_few_operations(scorer):
    found = overhead.selecting(scorer, 1296, 400)
    assert 0 < found.number <= 250
    assert found.syncs == 0


@pytest.mark.parametrize("budget", [0.3, "mean:0.4,max:0.7"])
def test_a_joint_plan_is_made_on_the_host_and_remembered(budget):
    model, inputs, _ = loaded("tiny-qwen")
    predictor = overhead.random_joint_predictor(model, CHAINS)
    first, again = overhead.planning(model, inputs, lambda: JointPlanner(predictor, budget))
    assert 0 < first.number <= 120
    assert 0 < again.number <= 40
    assert first.syncs == again.syncs == 1
    with all_on_devices():
        planner = JointPlanner(predictor, budget)
        whole = overhead.prefill(model, inputs, Pruner(planner.chain, planner))
    assert (whole.waits - unpruned().waits).total() == 2


def test_a_plan_is_made_on_the_host_and_remembered():
    model, inputs, _ = loaded("tiny-qwen")
    first, again = overhead.planning(model, inputs, planner_of_one_scorer)
    assert 0 < first.number <= 120
    assert 0 < again.number <= 40
    assert first.syncs == again.syncs == 1


def test_a_prefill_with_a_predictor_waits_twice():
    model, inputs, _ = loaded("tiny-qwen")
    with all_on_devices():
        found = overhead.prefill(model, inputs, Pruner("fastv", planner_of_one_scorer()))
    assert (found.waits - unpruned().waits).total() == 2


@pytest.mark.parametrize(
    ("name", "prompts", "most"),
    [
        ("tiny-qwen", 1, 0),
        ("tiny-llava", 1, 0),
        ("tiny-gemma", 1, 12),  # past its sliding window it has a mask for a single prompt too
        ("tiny-qwen", 8, 12),
        ("tiny-llava", 8, 12),
        ("tiny-gemma", 8, 12),
    ],
)
def test_decoding_after_pruning_costs_what_decoding_costs(name, prompts, most):
    model, inputs, layers = loaded(name, prompts)
    pruner = Pruner("fastv", Schedule.stages({2: 0.5, 5: 0.25}, layers))
    before, after = (overhead.decoding(model, inputs, p) for p in (None, pruner))
    assert after.number - before.number <= most
    assert (after.waits - before.waits).total() == 0
