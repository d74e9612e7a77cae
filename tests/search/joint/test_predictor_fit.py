"""By what a joint predictor knows its inputs: by kinds of instruction, or by their neighbours, as left-out samples decide."""

from dataclasses import replace

import pytest
import torch

import tiny
from search.random_batches import make_batches
from vispco.pruner.observation import Observation
from vispco.scorers import Chain
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.joint_table import measure_joint_table
from vispco.search.joint.predictor_fit import _fit_by_groups, _fit_by_neighbours, fit_joint_predictor
from vispco.search.objective import Objective

SMALL = JointSettings(
    levels=(0.5,), ranking_levels=(0.5,), table_levels=(), rungs=(3, 6, 6), shapes=3, chains=2, neighbours=4, anchors=2
)
SAMPLES, LOW, HIGH = 120, 0.05, 0.9


@pytest.fixture(scope="module")
def measured():
    objective = Objective(tiny.build("qwen2_5_vl"), "fastv")
    chains = tuple(Chain.of(name) for name in ("divprune", "divprune+fastv"))
    return objective, measure_joint_table(objective, make_batches(count=2), chains, SMALL)


def told_by(table, place):
    """A table of two configurations, of which a direction of the instruction or of the picture tells the better one."""
    generator = torch.Generator().manual_seed(0)
    hidden = table.observation.text.shape[-1]
    words, picture = (torch.randn(SAMPLES, hidden, generator=generator) for _ in range(2))
    side = torch.arange(SAMPLES) % 2
    (words if place == "words" else picture)[:, : hidden // 2] += 3.0 * (2.0 * side[:, None] - 1.0)
    seen = Observation(
        torch.cat([picture, picture.abs()], dim=-1),
        words[:, None],
        torch.ones(SAMPLES, 1, dtype=torch.bool),
        torch.tensor([16, 16, 16, 0]).expand(SAMPLES, -1),
    )
    kl = torch.stack([torch.where(side == 0, LOW, HIGH), torch.where(side == 0, HIGH, LOW)], dim=1)
    two = table.configurations.take([0, 1])
    return replace(table, configurations=two, observation=seen, kl=kl, hard=torch.ones_like(kl, dtype=torch.bool))


def test_what_the_picture_tells_is_seen_by_neighbours_alone(measured):
    table = told_by(measured[1], "picture")
    (groups,), (neighbours,) = _fit_by_groups(table).levels.values(), _fit_by_neighbours(table).levels.values()
    assert len(groups.choice.columns) == 1
    assert sorted(neighbours.choice.columns) == [0, 1]
    assert neighbours.choice.loss < 0.5 * groups.choice.loss
    predictor, held_out = fit_joint_predictor(measured[0], table)
    assert bool(predictor.kept.all())
    assert held_out[0.5].predictor < 0.5 * held_out[0.5].static


@pytest.mark.parametrize("place", ["words", "picture"])
def test_the_predictor_chooses_what_left_out_samples_promised(measured, place):
    table = told_by(measured[1], place)
    predictor, _ = fit_joint_predictor(measured[0], table)
    right = table.kl.argmin(-1)
    chosen = predictor.estimate().argmin(-1)  # each sample estimated from the others
    assert float((chosen == right).float().mean()) > 0.9


def test_noise_is_remembered_as_one_configuration(measured):
    table = told_by(measured[1], "picture")
    lot = torch.rand(table.kl.shape, generator=torch.Generator().manual_seed(1))
    (fit,) = _fit_by_neighbours(replace(table, kl=0.3 + 0.1 * lot)).levels.values()
    assert len(fit.choice.columns) == 1
    torch.testing.assert_close(fit.stored, -torch.expm1(-(0.3 + 0.1 * lot)))


def test_neighbours_are_the_same_at_all_levels(measured):
    """One bandwidth for the whole predictor, so that how hard an input is can be compared between levels."""
    table = told_by(measured[1], "picture")
    level = torch.tensor([0.2, 0.5], dtype=torch.float64)
    two = replace(table, configurations=replace(table.configurations, level=level))
    fit = _fit_by_neighbours(two)
    assert len(fit.levels) == 2
    predictor, _ = fit_joint_predictor(measured[0], two)
    assert torch.unique(predictor.memory.bandwidth).tolist() == pytest.approx([fit.bandwidth])
