"""Samples that lost nothing at a lower level are not measured at a higher one, and no pass is made twice for it."""

import pytest
import torch

from search.random_batches import zoo_model
from vispco.data import dataset
from vispco.pruner.kernel_regression import saturating_loss
from vispco.scorers import Chain
from vispco.search.calibration_batches import CalibrationBatches, _window_of
from vispco.search.joint import joint_table
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.joint.stage_samples import StageSamples, fill_unmeasured
from vispco.search.objective import Objective

SETTINGS = JointSettings(rungs=(1, 2, 4), hard_share=0.9, easy_samples=3)


@pytest.fixture(scope="module")
def batches():
    model, processor = zoo_model()
    runs = []
    samples = dataset("calibration", limit=2)[:10]
    made = CalibrationBatches(model, processor, samples, batch_size=4, on_new=runs.append)
    return made, runs


def test_the_first_stage_has_all_samples_in_their_order(batches):
    stage = StageSamples.of(batches[0], SETTINGS)
    assert stage.first == (0, 1, 2, 3)
    assert [batch.encoded.ids for batch in stage.rung_batches()] == [batches[0][0].encoded.ids]
    assert stage.as_many_again == [4, 5, 6, 7]
    assert stage.with_samples(8).as_many_again == [8, 9]
    assert stage.with_samples(10).as_many_again == []


def test_the_next_stage_has_the_samples_that_hold_the_loss_and_some_others(batches):
    kl = torch.zeros(10, 1)
    kl[2], kl[5], kl[8] = 0.5, 3.0, 1e-3
    stage = StageSamples.of(batches[0], SETTINGS).with_samples(10).after(kl)
    assert stage.hard.nonzero()[:, 0].tolist() == [2, 5]
    assert set(stage.first[:2]) == {2, 5}
    assert len(set(stage.first)) == 2 + 3
    assert stage.settings.rungs == (1, 2, 5)
    assert [len(batch) for batch in stage.rung_batches()] == [4, 1]
    table = stage.as_table(torch.arange(1.0, 6.0)[:, None])
    assert table[list(stage.first), 0].tolist() == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert int(table.isinf().sum()) == 5
    later = stage.after(table)  # what was not measured stays easy
    assert set(later.hard.nonzero()[:, 0].tolist()) <= set(stage.first)


def test_samples_of_several_batches_are_put_together_as_they_are_alone(batches):
    made, runs = batches
    whole = list(made)
    before = len(runs)
    picked = made.rows([6, 1, 9])
    assert len(runs) == before  # no teacher ran again
    assert picked.encoded.ids == tuple(made.samples[number].id for number in (6, 1, 9))
    objective = Objective(made.model, "fastv")
    counts = torch.full((len(picked), objective.cost.num_layers), 6)
    counts[:, 0] = picked.num_visual
    found = objective.measure_kl(picked, counts[None])[0]
    for place, number in enumerate((6, 1, 9)):
        batch, row = whole[number // 4], number % 4
        own = torch.full((len(batch), objective.cost.num_layers), 6)
        own[:, 0] = batch.num_visual
        alone = objective.measure_kl(batch, own[None])[0, row]
        torch.testing.assert_close(found[place], alone, rtol=1e-3, atol=1e-5)
        torch.testing.assert_close(picked.observation.visual[place], batch.observation.visual[row])
        assert picked.observation.sizes[place].tolist() == batch.observation.sizes[row].tolist()


def test_what_was_not_measured_is_like_the_easy_ones_that_were():
    kl = torch.tensor([[9.0, 9.0, 9.0], [0.1, 0.3, 50.0], [0.3, 0.5, 50.0], [torch.inf] * 3])
    found = fill_unmeasured(kl, torch.tensor([True, False, False, False]))
    assert torch.equal(found[:3], kl[:3])
    means = saturating_loss(kl[1:3]).mean(0)
    half_way = [(float(means[0]) + float(means[1])) / 2, float(means[1]), (1.0 + float(means[1])) / 2]
    assert saturating_loss(found[3]).tolist() == pytest.approx(
        half_way, rel=1e-5
    )  # the second is the median; without the hard one


def test_a_configuration_that_fails_the_easy_ones_moves_no_other():
    good = torch.tensor([[0.4, 0.5], [0.01, 0.02], [torch.inf, torch.inf]])
    bad = torch.cat([good, torch.tensor([[0.6], [9.0], [torch.inf]])], dim=1)
    hard = torch.tensor([True, False, False])
    found = fill_unmeasured(bad, hard)
    assert float(found[2, :2].max()) < 0.02
    assert float(found[2, 2]) > 0.5


@pytest.mark.parametrize("gains", [True, False])
def test_samples_are_doubled_as_long_as_that_gains(batches, monkeypatch, gains):
    made, asked = batches[0], []
    monkeypatch.setattr(joint_table, "is_gain", lambda gain, errors: asked.append((len(gain), errors)) or gains)
    chains = (Chain.of("divprune"),)
    settings = JointSettings(
        table_levels=(),
        levels=(0.5,),
        ranking_levels=(0.5,),
        rungs=(2, 4, 4),
        shapes=2,
        compensations=(),
        anchors=2,
        min_samples=5,
    )
    table = joint_table.measure_joint_table(Objective(made.model, "divprune"), made, chains, settings)
    assert asked == ([(8, 0.0), (10, 0.0)] if gains else [(8, 0.0)])
    assert len(table.kl) == len(table.observation.sizes) == (10 if gains else 8)
    assert bool(table.kl.isfinite().all())


def test_windows_end_where_rungs_do_and_hold_each_sample_once(batches):
    windows = [_window_of(number) for number in range(512)]
    assert {window.stop for window in windows} == {32, 64, 128, 256, 384, 512}
    assert all(number in window for number, window in enumerate(windows))
    plain = batches[0]
    ordered = CalibrationBatches(plain.model, plain.store.processor, plain.samples, batch_size=4, by_area=True)
    names = [name for batch in ordered for name in batch.encoded.ids]
    assert names == [each.id for each in sorted(plain.samples, key=lambda sample: sample.area)]
    assert sorted(ordered.areas.values()) == [ordered.areas[place] for place in range(len(names))]


def test_served_levels_are_near_every_budget_for_samples_of_middle_sizes():
    settings, budgets = JointSettings(), (0.2, 0.3, 0.45, 0.6)
    floors = torch.linspace(0.03, 0.21, 101).double().numpy()
    levels = settings.served_levels(budgets, floors)
    assert sum(levels.values()) == len(settings.levels)  # those that are explored
    for floor in floors[10:-10]:
        for budget in budgets:
            level = (budget - floor) / (1.0 - floor)
            if level > min(settings.table_levels) and budget <= 0.5:
                assert min(abs(floor + own * (1.0 - floor) - budget) for own in levels) <= 0.02 * (1 - floor) / 0.85
    middle = (0.3 - 0.12) / 0.88
    assert min(abs(middle - own) for own in levels) < 1e-3  # a budget has its own level
    assert list(settings.served_levels((), floors)) == sorted((*settings.levels, *settings.table_levels))


def test_batches_that_a_caller_made_are_measured_whole_at_every_stage(batches):
    stage = StageSamples.of([batches[0][0], batches[0][1]], SETTINGS).with_samples(8)
    later = stage.after(torch.zeros(8, 1))
    assert later.first == tuple(range(8))
    assert later.settings.rungs == (1, 2, 8)
    assert bool(later.hard.all())
