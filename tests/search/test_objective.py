"""The objective: masking with a gradient equals dropping, tiling equals repeating, and all FLOPs are on the bill."""

from dataclasses import replace

import pytest
import torch

import tiny
from search.random_batches import make_batches, zoo_model
from vispco.core.schedule import Schedule, whole_tokens
from vispco.cost import Workload
from vispco.data import dataset
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.objective import Objective, frozen

SCHEDULES = torch.tensor([[1.0, 1.0, 0.5, 0.5], [1.0, 0.6, 0.3, 0.0], [1.0, 1.0, 1.0, 1.0]], dtype=torch.float64)


@pytest.mark.parametrize("family", tiny.FIRST_CLASS)
@pytest.mark.parametrize("scorer", ["fastv", "sparsevlm", "fitprune"])
def test_the_relaxed_forward_pass_equals_real_pruning(family, scorer):
    (batch,) = make_batches(family, 1)
    objective = Objective(tiny.build(family), scorer)
    for row in SCHEDULES:
        retention = row.expand(len(batch), -1).clone().requires_grad_()
        with frozen(objective.model):
            relaxed = objective.relaxed_kl(batch, retention)
        dropped = objective.measure_kl(batch, whole_tokens(retention, batch.num_visual)[None])[0]
        assert torch.allclose(relaxed, dropped, atol=1e-5)


def test_the_full_schedule_has_no_divergence(batches, objective):
    counts = Schedule.full(tiny.LAYERS).counts(batches[0].encoded.num_visual)
    assert objective.measure_kl(batches[0], counts[None]).abs().max() < 1e-6


def test_candidates_measured_together_are_as_measured_alone(batches, objective):
    batch = batches[0]
    counts = torch.stack([whole_tokens(row.expand(len(batch), -1), batch.num_visual) for row in SCHEDULES])
    together = objective.measure_kl(batch, counts)
    alone = torch.cat([objective.measure_kl(batch, one[None]) for one in counts])
    assert torch.allclose(together, alone, atol=1e-6)


def test_a_tiled_batch_gives_each_copy_its_own_schedule(batches, objective):
    batch = batches[0]
    retention = SCHEDULES.repeat_interleave(len(batch), dim=0)
    with frozen(objective.model):
        tiled = objective.relaxed_kl(batch.tiled(3), retention).view(3, -1)
        alone = [objective.relaxed_kl(batch, row.expand(len(batch), -1)) for row in SCHEDULES]
    assert torch.allclose(tiled, torch.stack(alone), atol=1e-5)


def test_the_gradient_reaches_the_retention_and_no_weight(batches, objective):
    retention = SCHEDULES[0].expand(len(batches[0]), -1).clone().requires_grad_()
    with frozen(objective.model):
        objective.relaxed_kl(batches[0], retention).sum().backward()
    assert retention.grad[:, 2].abs().min() > 0
    assert all(p.grad is None for p in objective.model.parameters())
    assert all(p.requires_grad for p in objective.model.parameters())


def test_what_is_spent_is_what_the_cost_model_says(batches, objective):
    batch = batches[0]
    retention = SCHEDULES[0].expand(len(batch), -1).clone().requires_grad_()
    counts = whole_tokens(retention, batch.num_visual)
    full = float(objective.cost.full(Workload(batch.num_text + 2, batch.num_visual)).sum())
    objective.add_teacher(batch)
    objective.measure_kl(batch, counts[None])
    with frozen(objective.model):
        objective.relaxed_kl(batch, retention)
    spent = objective.spent
    assert (spent.teacher, spent.forward, spent.backward) == (full, full, 2 * full)
    load = replace(objective.workload(batch.sizes), num_text=batch.num_text + 2)
    assert spent.measured == float(objective.cost.bill(counts, load).sum())
    assert spent.measured > float(objective.cost.price(counts, load).sum()), "reading attention is on the bill"
    assert spent.total == sum((spent.teacher, spent.forward, spent.backward, spent.measured))


def test_a_predictor_never_sees_the_answer(batches):
    seen = batches[0].observation
    lengths = seen.present.sum(-1)
    assert lengths.tolist() == batches[0].num_text.tolist()
    assert torch.equal(seen.sizes[:, :2], torch.stack([batches[0].num_text, batches[0].num_visual], dim=-1))
    assert seen.sizes[:, 2].tolist() == list(batches[0].encoded.num_instruction)


def test_a_prepared_batch_runs_its_teacher_once_and_comes_back_the_same():
    model, processor = zoo_model()
    new = []
    batches = CalibrationBatches(
        model, processor, dataset("calibration", limit=1)[:5], batch_size=2, on_new=new.append, memory=1
    )
    assert [len(batch) for batch in batches] == [2, 2, 1]
    again = batches[1]
    assert len(new) == 3
    assert torch.equal(again.teacher, new[1].teacher)
    assert all(
        torch.equal(a, b)
        for a, b in zip(vars(again.observation).values(), vars(new[1].observation).values(), strict=False)
    )
    with pytest.raises(IndexError):
        batches[3]
