"""Sampling and video under a pruner, compared with forward passes over the whole text without a cache."""

from __future__ import annotations

import pytest
import torch

from tiny import DEFAULT, FIRST_CLASS, VIDEO, build, inputs, picture, words
from vispco import Pruner, Schedule

SCHEDULE = Schedule((1.0, 0.7, 0.7, 0.3))
SAMPLES = [DEFAULT, (words(1, 3), picture(2, 3), words(9, 4))]
CLIP = (words(2, 1), picture(2, 2, frames=3), words(4, 2))
CLIP_AND_PICTURE = (words(3, 5), picture(2, 3, frames=2), words(2, 6), picture(2, 3), words(3, 7))
SCORERS = ("fastv", "sparsevlm", "fitprune", "random")
STEPS = 5


def generated(model, x, pruner, **options):
    """The sequences [B, prompt + STEPS] and the logits that each new token was chosen from [B, STEPS, vocabulary]."""
    with pruner(model):
        out = model.generate(
            **x, max_new_tokens=STEPS, return_dict_in_generate=True, output_logits=True, use_cache=True, **options
        )
    return out.sequences, torch.stack(out.logits, 1)


@torch.no_grad()
def whole_text_logits(model, x, sequences, pruner):
    """Logits [B, STEPS, vocabulary] of one forward pass over prompt and answer, pruned as the prompt alone is."""
    prompt = x["input_ids"].shape[1]
    new = sequences[:, prompt:]
    labels = torch.full_like(sequences, -100)
    labels[:, prompt:] = new  # marks the answer, so that no scorer looks at it
    longer = {**x, "input_ids": sequences, "attention_mask": torch.cat([x["attention_mask"], torch.ones_like(new)], 1)}
    for key in ("mm_token_type_ids", "token_type_ids"):
        if key in x:
            longer[key] = torch.cat([x[key], torch.zeros_like(new, dtype=x[key].dtype)], 1)
    with pruner(model):
        return model(**longer, labels=labels, use_cache=False).logits[:, prompt - 1 : -1]


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_each_sampled_step_has_the_logits_of_a_forward_pass(family, attention, scorer):
    """Several sequences for each sample of a padded batch: every one goes its own way on a pruned cache."""
    model, x, pruner = build(family, attention), inputs(family, SAMPLES), Pruner(scorer, SCHEDULE)
    torch.manual_seed(7)
    sequences, logits = generated(model, x, pruner, do_sample=True, top_k=20, num_return_sequences=3)
    assert len({tuple(sequence.tolist()) for sequence in sequences}) == 6  # they differ: this is sampling
    for nth in range(3):
        rows = slice(nth, None, 3)  # the nth sequence of each sample
        expected = whole_text_logits(model, x, sequences[rows], pruner)
        assert (logits[rows] - expected).abs().max() < 1e-4


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_sampled_tokens_are_those_that_the_forward_passes_give(family):
    """Drawn again by hand, from the forward passes' logits and with the same seed."""
    model, x, pruner = build(family), inputs(family, SAMPLES), Pruner("fastv", SCHEDULE)
    torch.manual_seed(3)
    sequences, _ = generated(model, x, pruner, do_sample=True, top_k=20, temperature=0.8)
    expected = whole_text_logits(model, x, sequences, pruner)
    expected[..., model.generation_config.suppress_tokens] = -torch.inf
    torch.manual_seed(3)
    for step in range(STEPS):
        likely = expected[:, step].topk(20)
        probabilities = torch.zeros_like(expected[:, step]).scatter(
            1, likely.indices, (likely.values / 0.8).softmax(-1)
        )
        drawn = torch.multinomial(probabilities, 1)[:, 0]
        assert torch.equal(drawn, sequences[:, x["input_ids"].shape[1] + step])


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen2_vl", "qwen3_vl"])
def test_a_video_is_pruned_as_in_a_forward_pass(family, attention, scorer):
    """A video alone, and in the same batch a video followed by a picture."""
    model, x = build(family, attention), inputs(family, [CLIP, CLIP_AND_PICTURE])
    pruner = Pruner(scorer, SCHEDULE)
    sequences, logits = generated(model, x, pruner, do_sample=False)
    assert (logits - whole_text_logits(model, x, sequences, pruner)).abs().max() < 1e-4
    suppressed = logits.index_fill(-1, torch.tensor(model.generation_config.suppress_tokens), -torch.inf)
    assert torch.equal(suppressed.argmax(-1), sequences[:, x["input_ids"].shape[1] :])


@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen2_vl", "qwen3_vl"])
def test_pruning_a_video_changes_the_logits(family):
    """Otherwise the comparison above would also hold if video tokens were never pruned."""
    model, x = build(family), inputs(family, [CLIP])
    assert (x["input_ids"] == VIDEO).any()
    _, pruned = generated(model, x, Pruner("fastv", SCHEDULE), do_sample=False)
    _, unpruned = generated(model, x, Pruner("fastv", Schedule.full(4)), do_sample=False)
    assert (pruned[:, 0] - unpruned[:, 0]).abs().max() > 1e-3
