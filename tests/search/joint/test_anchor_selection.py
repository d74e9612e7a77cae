"""Which configurations a predictor may choose from: decided on left-out samples, never by a single one of them."""

import pytest
import torch

from vispco.pruner.kernel_regression import saturating_loss
from vispco.pruner.observation import Observation
from vispco.search.joint.anchor_selection import choose_configurations, is_gain, select_anchors
from vispco.search.joint.instruction_groups import group_instructions, leave_one_out_means


def recognised(groups):
    """The groups that are found in samples whose instruction says which group they are of."""
    generator = torch.Generator().manual_seed(0)
    centres = torch.randn(2, 8, generator=generator)
    near = centres[groups] + 0.01 * torch.randn(len(groups), 8, generator=generator)
    visual = torch.cat([near, near], dim=-1)
    sizes = torch.full((len(groups), 2), 16)
    return group_instructions(Observation(visual, near[:, None], torch.ones(len(groups), 1, dtype=torch.bool), sizes))


def choose(kl, groups):
    return choose_configurations(kl, leave_one_out_means(saturating_loss(kl), groups))


@pytest.fixture
def groups():
    return torch.arange(60) % 2


def test_configurations_that_serve_different_inputs_are_kept_and_chosen_right(groups):
    kl = torch.stack(
        [torch.where(groups == 0, 0.1, 0.9), torch.where(groups == 0, 0.8, 0.1), torch.full((60,), 2.0)], 1
    )
    choice = choose(kl, recognised(groups))
    assert sorted(choice.columns) == [0, 1]
    torch.testing.assert_close(choice.predictor, torch.full((60,), 0.1))
    assert sorted(select_anchors(kl, recognised(groups), 3)) == choice.columns


def test_where_the_best_cannot_be_recognised_one_configuration_stays(groups):
    """The better of two is drawn by lot: nothing that a predictor sees tells which."""
    lot = torch.rand(60, generator=torch.Generator().manual_seed(3)) < 0.5
    kl = torch.stack([torch.where(lot, 0.1, 0.5), torch.where(lot, 0.5, 0.15)], dim=1)
    choice = choose(kl, recognised(torch.zeros(60, dtype=torch.int64)))
    assert len(choice.columns) == 1
    assert torch.equal(choice.predictor, choice.static)


def test_a_gain_of_one_sample_is_none(groups):
    gain = torch.zeros(60)
    gain[7] = 40.0
    assert not is_gain(gain)
    assert is_gain(torch.full((60,), 0.1) + 0.01 * torch.arange(60) / 60)
    kl = torch.stack([torch.full((60,), 0.1), torch.full((60,), 0.2)], dim=1)
    kl[7, 0] = 9.0  # the first one loses a single sample altogether, and is the better one on all others
    assert select_anchors(kl, recognised(groups), 2) == [0]


def test_of_sets_that_serve_about_as_well_the_smallest_is_kept(groups):
    """A third configuration is better by a hair on a few samples, by lot: it is left out."""
    kl = torch.stack([torch.where(groups == 0, 0.1, 0.9), torch.where(groups == 0, 0.8, 0.1)], dim=1)
    lot = 0.02 * torch.randn(60, generator=torch.Generator().manual_seed(5))
    kl = torch.cat([kl, (kl[:, 1] + lot)[:, None]], dim=1)
    choice = choose(kl, recognised(groups))
    assert len(choice.columns) == 2
    assert 0 in choice.columns


def test_the_set_need_not_hold_the_best_single_one(groups):
    """The best single configuration is a compromise: two specialists serve better than with it."""
    kl = torch.stack(
        [torch.full((60,), 0.3), torch.where(groups == 0, 0.1, 0.9), torch.where(groups == 0, 0.9, 0.1)], 1
    )
    choice = choose(kl, recognised(groups))
    assert choice.columns == [1, 2]
    torch.testing.assert_close(choice.static, kl[:, 0])
    torch.testing.assert_close(choice.predictor, torch.full((60,), 0.1))


def test_a_choice_is_never_worse_than_one_configuration_on_left_out_samples(groups):
    for seed in range(8):
        kl = torch.rand(60, 3, generator=torch.Generator().manual_seed(seed)).square()
        choice = choose(kl, recognised(groups))
        assert float(choice.predictor.mean()) <= float(choice.static.mean()) + 1e-9
        assert float(choice.oracle.mean()) <= float(choice.predictor.mean()) + 1e-9


def test_the_bounded_loss_is_the_kl_where_it_is_small_and_under_one_where_it_is_not():
    kl = torch.tensor([0.0, 1e-3, 0.5, 5.0, 50.0])
    loss = saturating_loss(kl)
    assert loss[:2].tolist() == pytest.approx([0.0, 1e-3], rel=1e-3)
    assert bool((loss.diff() > 0).all())
    assert float(loss[-1]) <= 1.0
