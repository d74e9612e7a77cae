"""Lines that only some prompts reach: caches that are cropped, taken over or reordered, layers that see ahead, empty merges."""

from __future__ import annotations

from functools import cache

import pytest
import torch
from transformers import DynamicCache

from tiny import DEFAULT, FIRST_CLASS, build, inputs, picture, words
from vispco import Pruner, Schedule, Scorer
from vispco.check.prompts import ONE, prompter_for
from vispco.check.twin import FIRST_WORD, quiet, twin_of
from vispco.core.errors import UnsupportedModelError
from vispco.engine import answers_at
from vispco.engine.cache import PrunedLayer, PrunedSlidingLayer, track
from vispco.engine.gather import merge
from vispco.engine.kept import KeptTokens
from vispco.families import family_of
from vispco.scorers import Merge, Selection, top_tokens

SCHEDULE = Schedule((1.0, 0.5, 0.5, 0.25))
WINDOW = 12  # of tiny Gemma3
WINDOW_STEPS = 20


@cache
def twin(kind, window=None):
    with quiet():
        model = twin_of(kind, changes=None if window is None else {"text_config": {"sliding_window": window}})
    return model, prompter_for(model)


@torch.no_grad()
def run(model, x, pruner=None, **options):
    given = {name: dict(value) if isinstance(value, dict) else value for name, value in x.items()}
    if pruner is None:
        return model(**given, **options)
    with pruner(model):
        return model(**given, **options)


# Cropping


def filled(layer, *tokens):
    """A pruned layer after updates with so many tokens each; every key is the number of its token."""
    number = 0
    for count in tokens:
        keys = torch.arange(number, number + count).float().view(1, 1, -1, 1)
        layer.expected = True
        layer.update(keys, keys)
        number += count
    return layer


def prompt(slots, end, tail=0):
    return KeptTokens(torch.tensor([slots]), None, end, tail)


@pytest.mark.parametrize("tail", [0, 2])
def test_a_cache_is_cropped_up_to_the_prompt_and_not_one_token_further(tail):
    """A prompt of 9 tokens, of which 5 were kept, its last `tail` ones written by the model itself; then 3 more."""
    for remove in range(1, 6):
        layer = PrunedLayer(prompt([], 0), 0)
        layer.pending = (prompt([0, 3, 6, 7, 8], 9, tail), 9)
        filled(layer, 5, 3)
        assert layer.get_seq_length() == 12
        if remove <= 3 + tail:
            layer.crop(-remove)
            assert layer.get_seq_length() == 12 - remove
            assert layer.entries()[0].tolist() == [[0, 3, 6, 7, 8, 9, 10, 11][:-remove]]
            filled(layer, 2)
            assert layer.entries()[0].tolist() == [[*[0, 3, 6, 7, 8, 9, 10, 11][:-remove], 12 - remove, 13 - remove]]
        else:
            with pytest.raises(UnsupportedModelError, match=f"cropped by {remove} tokens: that reaches into a pruned"):
                layer.crop(-remove)
            assert layer.get_seq_length() == 12
            assert layer.entries()[0].tolist() == [[0, 3, 6, 7, 8, 9, 10, 11]]


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_a_prompt_is_not_cropped_by_one_token(family):
    model, x = build(family), inputs(family, [DEFAULT])
    found = run(model, x, Pruner("fastv", SCHEDULE), use_cache=True, past_key_values=DynamicCache()).past_key_values
    length = x["input_ids"].shape[1]
    for layer in (layer for layer in found.layers if isinstance(layer, PrunedLayer)):
        with pytest.raises(UnsupportedModelError, match="reaches into a pruned prompt"):
            layer.crop(-1)
        assert layer.get_seq_length() == length


# Sliding windows


@torch.no_grad()
def test_a_plain_cache_that_is_taken_over_holds_its_last_tokens():
    """A window of 12 holds the last 11 of 20 tokens, not the first."""
    model = build("gemma3")
    found = run(model, inputs("gemma3", [(words(20, 1),)]), use_cache=True).past_key_values
    sliding = [place for place, layer in enumerate(found.layers) if hasattr(layer, "sliding_window")]
    assert sliding
    for place in range(len(found.layers)):
        taken = track(found, place, prompt([20, 21], 22))
        held = taken.keys.shape[-2]
        assert held == (WINDOW - 1 if place in sliding else 20)
        assert taken.entries()[0].tolist() == [list(range(20 - held, 20))]
        assert taken.get_seq_length() == 20


class Last(Scorer):
    """Keeps the last tokens: the choice does not depend on anything."""

    name = "last-tokens"
    needs_attention = False

    def score(self, context):
        return torch.arange(context.live.shape[1]).float().expand(context.live.shape)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_picture_behind_a_text_longer_than_the_window_sees_the_end_of_that_text(attention):
    """Where everything that leaves is further away than the window of what stays, leaving changes nothing behind it.

    20 words in the cache; then a picture of 16 tokens of which the first leave before the last layer, whose window is 12, and 11
    words. The last words see neither those tokens nor the text before them, so they are as in the unpruned model.
    """
    model = build("gemma3", attention)
    turn = inputs("gemma3", [(picture(), words(11, 3))], seed=2)
    turn["attention_mask"] = torch.ones(1, 20 + turn["input_ids"].shape[1], dtype=torch.long)
    logits = []
    for schedule in (Schedule.full(4), Schedule((1.0, 1.0, 1.0, 0.5))):
        pruner = Pruner(Last(), schedule)
        past = run(model, inputs("gemma3", [(words(20, 1),)]), use_cache=True).past_key_values
        logits.append(run(model, turn, pruner, use_cache=True, past_key_values=past).logits[0])
    whole, pruned = logits
    # word w stands 16 + w behind the picture's start and sees 11 tokens back: the last 8 of the picture stay
    torch.testing.assert_close(pruned[16 + 3 :], whole[16 + 3 :], atol=1e-5, rtol=1e-4)
    assert not torch.allclose(pruned[16], whole[16], atol=1e-5)


def test_a_window_that_moves_on_forgets_the_first_tokens():
    """Five tokens of nine are kept; the window of six holds five entries, the newest."""
    layer = PrunedSlidingLayer(prompt([], 0), 0, sliding_window=6)
    layer.pending = (prompt([0, 3, 6, 7, 8], 9), 9)
    filled(layer, 5)
    slots = [0, 3, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
    for new in range(1, 4):
        filled(layer, 1)
        assert layer.held() == 5
        assert layer.entries()[0].tolist() == [slots[new : new + 5]]
    layer.pending = (prompt([13, 14], 15), 3)  # a second picture: token 12 leaves
    filled(layer, 2)
    assert layer.entries()[0].tolist() == [[9, 10, 11, 13, 14]]
    assert layer.get_seq_length() == 15


@pytest.mark.parametrize("remove", range(1, 5))
def test_a_window_that_has_moved_on_is_cropped_up_to_the_prompt(remove):
    """Of the five entries that it holds, two are of the prompt."""
    layer = PrunedSlidingLayer(prompt([], 0), 0, sliding_window=6)
    layer.pending = (prompt([0, 3, 6, 7, 8], 9), 9)
    filled(layer, 5)
    for _ in range(3):
        filled(layer, 1)
    assert layer.entries()[0].tolist() == [[7, 8, 9, 10, 11]]
    if remove == 4:
        with pytest.raises(UnsupportedModelError, match="reaches into a pruned prompt"):
            layer.crop(-remove)
    else:
        layer.crop(-remove)
        assert layer.entries()[0].tolist() == [[7, 8, 9, 10, 11][:-remove]]
        assert layer.get_seq_length() == layer.cumulative_length == 12 - remove


def test_columns_and_fill_are_those_of_the_entries_that_a_window_still_holds():
    """Two samples with three and two tokens; the second is filled up on the left. One column in front is closed."""
    kept = KeptTokens(torch.tensor([[0, 3, 6], [2, 4, 5]]), torch.tensor([[True] * 3, [False, True, True]]), 7)
    for first in range(3):
        for number in range(1, 6):
            part = slice(first, first + number)
            slots, valid = kept.entries(number, first)
            assert slots.tolist() == [[0, 3, 6, 7, 8, 9, 10, 11][part], [2, 4, 5, 7, 8, 9, 10, 11][part]]
            assert valid.tolist() == [[True] * number, [False, *[True] * 7][part]]
            assert kept.open(number, first)[:, 0, 0].tolist() == valid.tolist()
            assert kept.columns(number, first)[:, 0, 0].tolist() == ((slots + 1) * valid).tolist()


# Keys that layers share


@pytest.mark.parametrize("kind", ["gemma4", "gemma3n"])
@torch.no_grad()
def test_layers_that_share_the_keys_of_a_window_see_what_it_holds(kind):
    """Generated tokens beyond the window are those of one pass over the whole sequence."""
    model, prompter = twin(kind, WINDOW)
    assert family_of(model).text_model(model).config.sliding_window == WINDOW
    x = prompter([ONE])
    pruner = Pruner("random", SCHEDULE)
    with pruner(model):
        out = run(model, x, use_cache=True)
        ids, mask = x["input_ids"], x["attention_mask"]
        step, seen = out.logits[:, -1:], []
        for _ in range(WINDOW_STEPS):
            token = step[..., FIRST_WORD:].argmax(-1) + FIRST_WORD
            ids, mask = torch.cat([ids, token], 1), torch.cat([mask, torch.ones_like(token)], 1)
            step = model(
                input_ids=token, attention_mask=mask, past_key_values=out.past_key_values, use_cache=True
            ).logits
            seen.append(step[:, -1])
        assert any(getattr(layer, "first", 0) for layer in out.past_key_values.layers)
        longer = {**x, "input_ids": ids, "attention_mask": mask}
        for name in ("token_type_ids", "mm_token_type_ids"):
            if name in x:
                longer[name] = torch.cat([x[name], x[name].new_zeros(1, WINDOW_STEPS)], 1)
        labels = torch.full_like(ids, -100)
        labels[:, x["input_ids"].shape[1] :] = 0
        with answers_at(labels == 0):
            whole = run(model, longer, use_cache=False).logits[:, -WINDOW_STEPS:]
    torch.testing.assert_close(torch.stack(seen, 1), whole, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("change", ["reorder_cache", "batch_select_indices", "batch_repeat_interleave"])
@pytest.mark.parametrize("kind", ["gemma4", "gemma3n"])
@torch.no_grad()
def test_samples_whose_cache_changes_places_take_along_what_their_layers_do_not_see(kind, change):
    """Layers that use the keys of earlier ones are told which of them have left since, for each sample."""
    model, prompter = twin(kind)
    x = prompter([ONE, ONE])
    schedule = Schedule(((1.0, 0.5, 0.5, 0.25), (1.0, 0.75, 0.25, 0.25)))
    with Pruner("random", schedule)(model):

        def step(change, token):
            past = run(model, x, use_cache=True).past_key_values
            assert any(getattr(layer, "closed", None) for layer in past.layers)
            change(past)
            given = {"input_ids": token, "past_key_values": past, "use_cache": True}
            return model(**given).logits[:, -1]

        tokens = torch.tensor([[9], [11]])
        want = step(lambda _: None, tokens)
        if change == "batch_repeat_interleave":
            got = step(lambda past: past.batch_repeat_interleave(2), tokens.repeat_interleave(2, 0))
            want = want.repeat_interleave(2, 0)
        else:
            got = step(lambda past: getattr(past, change)(torch.tensor([1, 0])), tokens.flip(0))
            want = want.flip(0)
    assert not torch.allclose(want[0], want[-1], atol=1e-3)
    torch.testing.assert_close(got, want, atol=1e-5, rtol=1e-4)


# Layers that see in both directions


def prompts_without_masks(prompter):
    """Two prompts of one length, and each alone. PaliGemma reads a prompt without token types in both directions."""
    both, *alone = prompter([ONE, ONE]), prompter.alone([ONE, ONE], 0), prompter.alone([ONE, ONE], 1)
    return [{k: v for k, v in x.items() if k not in ("token_type_ids", "attention_mask")} for x in (both, *alone)]


@pytest.mark.parametrize("scorer", ["random", "fitprune"])
def test_layers_that_see_ahead_still_do_where_a_batch_is_filled_up(scorer):
    """They are handed no mask, and are no causal ones; a mask that closes fill must not close the future as well."""
    model, prompter = twin("paligemma")
    assert not any(family_of(model).attention(layer).is_causal for layer in family_of(model).layers(model))
    both, *alone = prompts_without_masks(prompter)
    schedule = Schedule(((1.0, 0.5, 0.5, 0.25), (1.0, 0.75, 0.25, 0.25)))
    together = run(model, both, Pruner(scorer, schedule), use_cache=False).logits
    for sample, x in enumerate(alone):
        text = ~prompter.visual(x)[0]
        want = run(model, x, Pruner(scorer, Schedule(schedule.retention[sample])), use_cache=False).logits
        torch.testing.assert_close(together[sample, text], want[0, text], atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("scorer", ["fitprune", "sparsevlm"])
def test_layers_that_see_ahead_are_read_and_masked_in_both_directions(scorer):
    """Without a mask as with one that is open everywhere, which token types ask for."""
    model, prompter = twin("paligemma")
    x = prompts_without_masks(prompter)[1]
    typed = {**x, "token_type_ids": torch.zeros_like(x["input_ids"])}
    text, kept = ~prompter.visual(x), {}
    for attention, given in (("eager", typed), ("sdpa", typed), ("sdpa", x)):
        model.set_attn_implementation(attention)
        for mode in ("drop", "mask"):
            pruner = Pruner(scorer, SCHEDULE, mode=mode, record=True)
            with pruner(model):
                logits = run(model, given, use_cache=False).logits
                kept[attention, len(given), mode] = pruner.survivors(model), logits[text]
    survivors, want = next(iter(kept.values()))
    assert len(kept) == 6
    for found, logits in kept.values():
        assert all(torch.equal(a, b) for a, b in zip(found, survivors, strict=True))
        torch.testing.assert_close(logits, want, atol=1e-4, rtol=1e-4)


# Merging


def test_tokens_that_join_with_no_weight_leave_their_target_as_it_was():
    hidden = torch.tensor([[[1.0], [3.0], [10.0], [5.0]]], requires_grad=True)
    into = torch.tensor([[1, 1, 3, 3]])
    merged = merge(hidden, into, torch.tensor([[0.0, 0.0, 0.0, 2.0]]))
    assert merged.flatten().tolist() == [1.0, 3.0, 10.0, 5.0]
    merged.sum().backward()
    assert hidden.grad.flatten().tolist() == [1.0, 1.0, 1.0, 1.0]


def test_a_sum_without_weight_is_nothing_where_it_is_no_mean():
    hidden = torch.tensor([[[1.0], [3.0], [10.0], [5.0]]])
    merged = merge(hidden, torch.tensor([[1, 1, 3, 3]]), torch.tensor([[0.0, 0.0, 0.5, 2.0]]), normalise=False)
    assert merged.flatten().tolist() == [1.0, 0.0, 10.0, 15.0]


def test_tokens_that_go_nowhere_add_nothing():
    hidden = torch.tensor([[[1.0], [3.0], [10.0]]])
    for normalise in (True, False):
        merged = merge(hidden, torch.tensor([[0, -1, -1]]), torch.ones(1, 3), normalise=normalise)
        assert merged.flatten().tolist() == [1.0, 3.0, 10.0]


class Weightless(Scorer):
    """Keeps the first tokens; the others join the first of all with no weight, or do not join."""

    name = "weightless"
    needs_attention = False
    merges = True

    def __init__(self, joins):
        self.joins = joins

    def select(self, context):
        live = context.live
        slots = torch.arange(live.shape[1]).expand(live.shape)
        keep = top_tokens(-slots.float(), live, context.counts)
        into = torch.where(keep & (slots > 0), slots, torch.where(live, 0, -1))
        weight = torch.where(keep & (slots > 0), 1.0, 0.0)
        return Selection(keep, merge=Merge(into, weight) if self.joins else None)


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_merging_with_no_weight_is_dropping(family):
    model, x = build(family), inputs(family, [DEFAULT, (words(1, 3), picture(2, 3), words(9, 4))])
    joined, dropped = (run(model, x, Pruner(Weightless(joins), SCHEDULE)).logits for joins in (True, False))
    assert joined.isfinite().all()
    assert torch.equal(joined, dropped)
