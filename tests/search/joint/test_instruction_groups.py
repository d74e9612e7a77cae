"""Kinds of instructions are found by themselves, and an input is estimated from the others of its kind alone."""

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import given, settings

from vispco.pruner.kernel_regression import KernelRegression
from vispco.pruner.observation import Observation
from vispco.search.joint.instruction_groups import (
    _MAX_GROUPS,
    _SHRINKAGE,
    BANDWIDTH,
    group_centres,
    group_instructions,
    leave_one_out_means,
    shrink_to_mean,
)

WIDTH = 12


def observe_kinds(kinds, spread=0.1, seed=0):
    """Samples of these kinds [M], whose pictures and sizes say nothing about it."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(int(kinds.max()) + 1, WIDTH, generator=generator)
    words = centres[kinds] + spread * torch.randn(len(kinds), WIDTH, generator=generator)
    visual = torch.randn(len(kinds), 2 * WIDTH, generator=generator)
    sizes = torch.randint(4, 40, (len(kinds), 2), generator=generator)
    return Observation(visual, words[:, None], torch.ones(len(kinds), 1, dtype=torch.bool), sizes)


def same_partition(one, other):
    return torch.equal(one[:, None] == one[None], other[:, None] == other[None])


@pytest.mark.parametrize("count", [2, 3, 5, 8])
def test_kinds_that_are_apart_are_found_without_being_told_how_many(count):
    kinds = torch.arange(12 * count) % count
    assert same_partition(group_instructions(observe_kinds(kinds)), kinds)


def test_there_are_never_more_groups_than_allowed_or_than_samples_can_fill():
    many = torch.arange(4 * (_MAX_GROUPS + 8)) % (_MAX_GROUPS + 8)
    assert int(group_instructions(observe_kinds(many, spread=0.01)).max()) < _MAX_GROUPS
    few = torch.arange(8)  # as many kinds as samples: two groups of four at most
    assert int(group_instructions(observe_kinds(few, spread=0.01)).max()) <= 1


@settings(deadline=None, max_examples=20)
@given(samples=st.integers(1, 50), seed=st.integers(0, 100))
def test_any_samples_get_groups_that_are_numbered_without_gaps(samples, seed):
    kinds = torch.randint(0, 3, (samples,), generator=torch.Generator().manual_seed(seed))
    groups = group_instructions(observe_kinds(kinds, spread=1.0, seed=seed))
    assert groups.shape == (samples,)
    assert sorted(set(groups.tolist())) == list(range(int(groups.max()) + 1))
    assert int(groups.max()) < _MAX_GROUPS


@settings(deadline=None, max_examples=20)
@given(seed=st.integers(0, 1000))
def test_a_left_out_mean_is_that_of_a_naive_loop(seed):
    generator = torch.Generator().manual_seed(seed)
    loss = torch.rand(13, 2, generator=generator, dtype=torch.float64)
    groups = torch.unique(torch.randint(0, 4, (13,), generator=generator), return_inverse=True)[1]
    found = leave_one_out_means(loss, groups)
    for row in range(13):
        others = [n for n in range(13) if n != row]
        same = [n for n in others if groups[n] == groups[row]]
        overall = torch.stack([loss[n] for n in others]).mean(0)
        total = sum((loss[n] for n in same), _SHRINKAGE * overall)
        torch.testing.assert_close(found[row], total / (len(same) + _SHRINKAGE))


def test_a_memory_by_groups_gives_an_input_the_mean_of_its_kind():
    kinds = torch.arange(48) % 4
    observation = observe_kinds(kinds)
    loss = torch.rand(48, 3, generator=torch.Generator().manual_seed(1))
    memory = KernelRegression(WIDTH, 48, 3)
    known = shrink_to_mean(loss, kinds)
    memory.fit(observation, known, torch.full((3,), BANDWIDTH), lambda points: group_centres(points, kinds))
    again = observe_kinds(torch.arange(8) % 4)  # the same centres, other pictures and sizes
    wanted = torch.stack(
        [(loss[kinds == kind].sum(0) + _SHRINKAGE * loss.mean(0)) / (12 + _SHRINKAGE) for kind in range(4)]
    )
    torch.testing.assert_close(memory.estimate(again), wanted[torch.arange(8) % 4], rtol=1e-3, atol=1e-4)
