"""generate() under a pruner, in all the ways that people call it."""

from __future__ import annotations

import pytest
import torch
from transformers import DynamicCache

from tiny import DEFAULT, FIRST_CLASS, IMAGE, LAYERS, VIDEO, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.scorers import SCORERS

SCHEDULE = Schedule((1.0, 0.7, 0.7, 0.3))
SAMPLES = [DEFAULT, (words(1, 3), picture(2, 3), words(9, 4))]
PRUNER = Pruner("fastv", SCHEDULE)


def generate(model, x, pruner=PRUNER, n=4, **options):
    options = {"do_sample": False, **options}
    if pruner is None:
        return model.generate(**x, max_new_tokens=n, **options)
    with pruner(model):
        return model.generate(**x, max_new_tokens=n, **options)


@torch.no_grad()
def greedy_by_hand(model, x, n):
    """Greedy decoding without a cache: the whole sequence again for every token, pruned as it was for the prompt."""
    x = dict(x)
    prompt = x["input_ids"].shape[1]
    for _ in range(n):
        labels = torch.full_like(x["input_ids"], -100)
        labels[:, prompt:] = 0  # everything after the prompt is an answer: no query, not pruned by
        with PRUNER(model):
            logits = model(**x, labels=labels, use_cache=False).logits[:, -1]
        logits[:, [IMAGE, VIDEO]] = -torch.inf
        token = logits.argmax(-1, keepdim=True)
        x["input_ids"] = torch.cat([x["input_ids"], token], 1)
        x["attention_mask"] = torch.cat([x["attention_mask"], torch.ones_like(token)], 1)
        for key in ("mm_token_type_ids", "token_type_ids"):
            if key in x:
                x[key] = torch.cat([x[key], torch.zeros_like(token, dtype=x[key].dtype)], 1)
    return x["input_ids"]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_greedy_equals_running_the_whole_sequence_again_for_each_token(family, attention):
    model, x = build(family, attention), inputs(family, SAMPLES)
    assert torch.equal(generate(model, x, n=6), greedy_by_hand(model, x, 6))


@torch.no_grad()
def test_a_generation_leaves_nothing_behind_for_the_next_pass():
    """A longer prompt after a generation is all prompt: none of it is taken for what was written."""
    model, longer = build("llava"), inputs("llava", [(words(2, 1), picture(), words(12, 2))])
    with PRUNER(model):
        fresh = model(**longer, use_cache=False).logits
    with PRUNER(model):
        model.generate(**inputs("llava", [DEFAULT]), max_new_tokens=2, do_sample=False)
        assert torch.equal(model(**longer, use_cache=False).logits, fresh)


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_sampling_with_a_seed_repeats_itself(family):
    model, x = build(family), inputs(family, SAMPLES)
    outputs = []
    for _ in range(2):
        torch.manual_seed(7)
        outputs.append(generate(model, x, do_sample=True, top_k=20, num_return_sequences=3))
    assert torch.equal(*outputs)
    assert outputs[0].shape == (6, x["input_ids"].shape[1] + 4)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_beams_score_their_sequences_as_a_forward_pass_does(family, attention):
    """Beam search reorders the pruned caches at every step; the scores that it reports must still be true."""
    model, x = build(family, attention), inputs(family, [DEFAULT])
    n = 6
    out = generate(model, x, n=n, num_beams=4, num_return_sequences=4, return_dict_in_generate=True, output_scores=True)
    assert len({tuple(s.tolist()) for s in out.sequences}) == 4
    prompt = x["input_ids"].shape[1]
    for sequence, score in zip(out.sequences, out.sequences_scores, strict=True):
        new = sequence[prompt:]
        longer = {**x, "input_ids": sequence[None], "attention_mask": torch.ones(1, len(sequence), dtype=torch.long)}
        for key in ("mm_token_type_ids", "token_type_ids"):
            if key in x:
                longer[key] = torch.cat([x[key], torch.zeros(1, n, dtype=x[key].dtype)], 1)
        labels = torch.full_like(sequence[None], -100)
        labels[:, prompt:] = new
        with torch.no_grad(), PRUNER(model):
            logits = model(**longer, labels=labels).logits[0, prompt - 1 : -1]
        truth = logits.log_softmax(-1).gather(1, new[:, None]).sum() / n
        assert abs(float(truth - score)) < 1e-4


@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_several_images_in_one_sample_and_none_in_another(family, side):
    model = build(family)
    many = (words(2, 1), picture(), words(3, 2), picture(3, 3), words(4, 3))
    samples = [many, (words(7, 4),), DEFAULT]
    x = inputs(family, samples, side=side)
    pruner = Pruner("fastv", SCHEDULE, record=True)
    with torch.no_grad(), pruner(model):
        model(**x)
        live = pruner.survivors(model)
    expected = SCHEDULE.counts((x["input_ids"] == IMAGE).sum(-1).tolist()).T.tolist()
    assert [mask.sum(-1).tolist() for mask in live] == expected
    if side == "left":
        together = generate(model, x)
        alone = generate(model, inputs(family, [samples[1]]))
        assert torch.equal(together[1, -4:], alone[0, -4:])


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_text_alone_is_left_alone(family):
    model = build(family)
    x = inputs(family, [(words(7, 4),), (words(3, 5),)])
    assert torch.equal(generate(model, x), generate(model, x, pruner=None))


def test_video_tokens_are_visual_tokens():
    model = build("qwen2_5_vl")
    x = inputs("qwen2_5_vl", [(words(2, 1), picture(2, 2, frames=3), words(4, 2), picture(2, 3), words(3, 3))])
    pruner = Pruner("sparsevlm", SCHEDULE, record=True)
    with pruner(model):
        out = model.generate(**x, max_new_tokens=3, do_sample=False)
        assert [int(mask.sum()) for mask in pruner.survivors(model)] == SCHEDULE.counts([18]).tolist()[0]
    assert out.shape[1] == x["input_ids"].shape[1] + 3


SECOND = (words(3, 8), picture(), words(4, 9))


def continued(family, x, seen):
    """Inputs that go on after `seen` tokens. Qwen makes positions of the wrong length from a longer mask; it needs none."""
    x = dict(x)
    if family.startswith("qwen"):
        del x["attention_mask"]
    else:
        x["attention_mask"] = torch.ones(len(x["input_ids"]), seen + x["input_ids"].shape[1], dtype=torch.long)
    return x


@torch.no_grad()
def two_turns(model, family, pruner, turn=SECOND):
    """A second turn, by default with a new image, continuing on the cache of the first; then one more token."""
    first, second = inputs(family, [DEFAULT]), inputs(family, [turn], seed=3)
    seen = first["input_ids"].shape[1]
    with pruner(model):
        cache = model(**first, past_key_values=DynamicCache(config=model.config), use_cache=True).past_key_values
        two = model(**continued(family, second, seen), past_key_values=cache, use_cache=True)
        token = two.logits[:, -1:].argmax(-1)
        step = {"input_ids": token, "attention_mask": None}
        if family == "gemma3":
            step["token_type_ids"] = torch.zeros_like(token)
        step = continued(family, step, seen + second["input_ids"].shape[1])
        three = model(**step, past_key_values=cache, use_cache=True)
    return two.logits, three.logits, cache


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_a_second_turn_prunes_its_own_image_and_keeps_the_first_as_it_was(family, attention):
    model = build(family, attention)
    full = two_turns(model, family, Pruner("fastv", Schedule.full(LAYERS)))
    plain = two_turns(model, family, Pruner("random", Schedule.full(LAYERS)))
    assert torch.equal(full[0], plain[0])
    _, _, cache = two_turns(model, family, PRUNER)
    tokens, kept = 7 + 7, SCHEDULE.counts([16]).tolist()[0]
    for layer, count in zip(cache.layers, kept, strict=True):
        assert layer.get_seq_length() == 2 * 16 + tokens + 1
        held = 2 * count + tokens + 1
        window = getattr(layer, "sliding_window", None)
        assert layer.keys.shape[-2] == (held if window is None else min(held, window - 1))


@pytest.mark.parametrize("compensate", [0.0, 0.75])
@pytest.mark.parametrize(("family", "turn"), [("llava", SECOND), ("llava", SECOND[:1]), ("gemma3", SECOND[:1])])
def test_two_turns_on_a_cache_equal_both_at_once(family, turn, compensate):
    """With scores that do not depend on the turn, one prefill must agree with two.

    Not for a second *image* in Gemma3, where transformers itself attends differently with a cache and without.
    """
    model, schedule = build(family), Schedule((1.0, 0.5, 0.5, 0.25))
    two, three, _ = two_turns(model, family, Pruner("random", schedule, compensate=compensate), turn)
    first, second = inputs(family, [DEFAULT]), inputs(family, [turn], seed=3)
    whole = {k: torch.cat([v, second[k]], dim=0 if k == "pixel_values" else 1) for k, v in first.items() if k in second}
    whole = {**first, **whole}

    class SameForBoth(SCORERS.get("random")):
        """The random scores of one image, used for each of them."""

        name = "same-for-both"

        def score(self, context):
            draws = torch.rand(16, generator=torch.Generator().manual_seed(0))
            return draws.repeat(context.live.shape[1] // 16).expand_as(context.live)

    once = Pruner(SameForBoth(), schedule, compensate=compensate)
    token = two[:, -1:].argmax(-1)
    longer = {**whole, "input_ids": torch.cat([whole["input_ids"], token], 1)}
    for key in ("attention_mask", "token_type_ids"):
        if key in whole:
            longer[key] = torch.cat([whole[key], torch.full_like(token, int(key == "attention_mask"))], 1)
    with torch.no_grad(), once(model):
        logits = model(**longer).logits[0]
    text, start = second["input_ids"][0] != IMAGE, first["input_ids"].shape[1]
    assert (logits[start:-1][text] - two[0][text]).abs().max() < 1e-4
    assert (logits[-1] - three[0, -1]).abs().max() < 1e-4


@pytest.mark.parametrize("compensate", [0.0, 0.75])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_a_cache_that_is_repeated_selected_and_cropped_stays_right(family, compensate):
    model, x = build(family), inputs(family, SAMPLES)
    with torch.no_grad(), Pruner("fastv", SCHEDULE, compensate=compensate)(model):
        cache = model(**x, use_cache=True).past_key_values
        token = torch.full((2, 1), 9)
        step = {"input_ids": token, "attention_mask": torch.cat([x["attention_mask"], torch.ones_like(token)], 1)}
        if family.startswith("qwen"):  # it would make positions of the wrong length from this mask
            step["position_ids"] = torch.full((3, 2, 1), 20)
        if family == "gemma3":
            step["token_type_ids"] = torch.zeros_like(token)
        want = model(**step, past_key_values=cache, use_cache=True).logits
        cache.batch_repeat_interleave(2)
        cache.batch_select_indices(torch.tensor([0, 2]))
        if family != "gemma3":  # a full sliding window cannot be rolled back, with or without pruning
            cache.crop(-1)
            assert cache.get_seq_length() == x["input_ids"].shape[1]
            again = model(**step, past_key_values=cache, use_cache=True).logits
            assert (again - want).abs().max() < 1e-5
            with pytest.raises(Exception, match="pruned prompt"):
                cache.crop(-30)
