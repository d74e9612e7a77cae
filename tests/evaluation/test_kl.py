import math

import pytest
import torch

from vispco import Pruner, Schedule
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.evaluation import FeatureStore, Reference, TaskEvaluator, answer_logits, encode
from vispco.evaluation.kl_meter import TOP_TOKENS, KlMeter, top_log_probabilities
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.objective import Objective

from .conftest import layers_of


def naive_kl(model, processor, samples, schedule, direction):
    """One sample after another, one position after another, one word after another."""
    values = []
    for sample in samples:
        batch = encode(model, processor, [sample], answers=True)
        full = model(**batch.inputs).logits[0].double().log_softmax(-1)
        with Pruner("fastv", schedule)(model):
            pruned = model(**batch.inputs, labels=batch.labels).logits[0].double().log_softmax(-1)
        each = []
        for place, label in enumerate(batch.labels[0].tolist()):
            if label != -100:
                p, q = pruned[place - 1], full[place - 1]
                p, q = (p, q) if direction == "pruned||full" else (q, p)
                each.append(sum(math.exp(a) * (a - b) for a, b in zip(p.tolist(), q.tolist(), strict=True)))
        values.append(sum(each) / len(each))
    return sum(values) / len(values)


@torch.no_grad()
@pytest.mark.parametrize("direction", ["pruned||full", "full||pruned"])
def test_kl_is_that_of_a_naive_loop(pair, samples, direction):
    model, processor = pair
    schedule = Schedule.single(2, 0.2, layers_of(model))
    evaluator = TaskEvaluator(model, processor, samples, "fastv", batch_size=3)
    expected = naive_kl(model, processor, samples, schedule, direction)
    assert evaluator.kl(schedule, direction) == pytest.approx(expected, rel=2e-3)
    assert expected > 1e-4


def test_kl_of_the_full_schedule_is_zero(pair, samples):
    model, processor = pair
    evaluator = TaskEvaluator(model, processor, samples, kl=True)
    full = Schedule.full(layers_of(model))
    assert evaluator.kl(full) == evaluator.kl(None) == evaluator(full).kl == 0.0


def test_the_evaluation_has_the_same_kl_and_only_when_asked(qwen, samples):
    model, processor = qwen
    schedule = Schedule.single(2, 0.2, layers_of(model))
    asked, not_asked = (TaskEvaluator(model, processor, samples, kl=flag) for flag in (True, False))
    assert asked(schedule).kl == asked.kl(schedule)
    assert not_asked(schedule).kl is None


@torch.no_grad()
def test_the_full_model_runs_once_and_its_words_come_back_from_disk(qwen, samples):
    model, processor = qwen
    reference = Reference(model, memory=0)
    store = FeatureStore(model, processor)
    batch = store.encode(samples, answers=True)
    expected = answer_logits(model, batch).log_softmax(-1)
    calls = []
    handle = model.register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        for _ in range(2):
            found = reference.log_probs(batch)
        other = reference.log_probs(store.encode(samples[::-1], answers=True))
    finally:
        handle.remove()
    assert len(calls) == 1
    assert reference.cache.on_disk == len(samples)
    assert torch.equal(found[batch.answer_mask], expected[batch.answer_mask])
    assert torch.equal(other.flip(0), found)


def test_kl_has_a_gradient_in_the_pruned_model(qwen, samples):
    model, processor = qwen
    reference = Reference(model)
    batch = encode(model, processor, samples[:2], answers=True)
    with torch.no_grad():
        reference.compute(batch)
    logits = torch.randn(*batch.answer_mask.shape, model.config.text_config.vocab_size, requires_grad=True)
    reference.kl(logits, batch).sum().backward()
    assert logits.grad[batch.answer_mask].abs().sum() > 0
    assert logits.grad[~batch.answer_mask].abs().sum() == 0


def test_an_unknown_direction_lists_the_known_ones():
    with pytest.raises(UnknownNameError, match=r"pruned\|\|full"):
        KlMeter("sideways")


def test_the_search_measures_what_the_evaluator_does(qwen, samples):
    """One meter: the same samples, schedule and direction give the same KL in both."""
    model, processor = qwen
    schedule = Schedule.single(2, 0.3, layers_of(model))
    batches = CalibrationBatches(model, processor, samples, batch_size=len(samples))
    for direction in ("pruned||full", "full||pruned"):
        objective = Objective(model, "fastv", direction=direction)
        found = objective.measure_kl(batches[0], schedule.counts(batches[0].encoded.num_visual)[None])
        expected = TaskEvaluator(model, processor, samples, "fastv").kl(schedule, direction)
        assert float(found.mean()) == pytest.approx(expected, rel=1e-4)


def test_a_batch_without_answers_cannot_be_compared(qwen, samples):
    model, processor = qwen
    with pytest.raises(InvalidInputError, match="answers=True"):
        answer_logits(model, encode(model, processor, samples[:1]))


@pytest.mark.parametrize("direction", ["pruned||full", "full||pruned"])
def test_kl_from_the_likeliest_tokens_is_exact_to_a_thousandth_and_never_above(direction):
    generator = torch.Generator().manual_seed(0)
    full = (8.0 * torch.randn(2, 5, 20_000, generator=generator)).log_softmax(-1)
    pruned = full + 0.4 * torch.randn(full.shape, generator=generator)
    mask = torch.ones(2, 5, dtype=torch.bool)
    mask[1, :2] = False
    kept = torch.stack([top_log_probabilities(row) for row in full])
    assert kept.shape == (2, 5, 2 * TOP_TOKENS + 1)
    exact, found = KlMeter(direction)(pruned, full, mask), KlMeter(direction)(pruned, kept, mask)
    assert bool((exact > 0.01).all())
    torch.testing.assert_close(found, exact, rtol=0, atol=1e-3)
    assert bool((found <= exact + 1e-6).all())
    small = full[0, :, :100].log_softmax(-1)
    assert top_log_probabilities(small) is small  # a small vocabulary is kept whole
