"""Methods that choose inside the language model: each keeps what its card says. The laws are in `test_laws`."""

from __future__ import annotations

import pytest
import torch

from engine.naive import record_layers
from methods import naive_inside as naive
from tiny import DEFAULT, FIRST_CLASS, IMAGE, LAYERS, build, inputs, picture, words
from vispco import Pruner, Schedule
from vispco.core.layout import TokenLayout
from vispco.engine.replay import Prefix
from vispco.families import family_of
from vispco.scorers import Chain, ScoringContext
from vispco.scorers.sparsevlm import recycle

TOLERANCE = 1e-4
METHODS = {
    "v2drop": naive.v2drop,
    "vtw": naive.vtw,
    "pyramiddrop": naive.pyramiddrop,
    "vscan-inside": naive.vscan_inside,
    "himap": naive.himap_text,
    "himap(rows=visual)": naive.himap_visual,
    "priortr": naive.priortr,
    "priortr(rows=text)": naive.priortr_text,
    "dart": naive.dart,
    "knorm": naive.knorm,
    "aim": naive.aim,
    "btp": naive.btp,
    "topv": naive.topv,
    "sparsevlm(rank=0.9,bias=1)": naive.sparsevlm_rank,
}
CASES = {
    "one picture": (DEFAULT, (1.0, 0.7, 0.7, 0.3)),
    "two pictures, at every layer": (
        (words(2, 1), picture(), words(3, 2), picture(3, 2), words(4, 3)),
        (1.0, 0.8, 0.5, 0.2),
    ),
    "no text after the picture, down to one token": ((words(4, 4), picture(2, 3)), (1.0, 0.5, 0.06, 0.06)),
    "all pruned": (DEFAULT, (1.0, 1.0, 0.4, 0.0)),
    "pictures of one token": (
        (words(2, 1), picture(1, 1), words(3, 2), picture(1, 1), words(4, 3)),
        (1.0, 0.5, 0.5, 0.0),
    ),
}


def batch(family, side="left"):
    samples = [DEFAULT, (words(1, 3), picture(2, 3), words(9, 4)), (words(3, 5), picture(3, 5), words(2, 6))]
    return inputs(family, samples, side=side)


def logits(model, x, pruner):
    with torch.no_grad(), pruner(model):
        return model(**x).logits


def survivors(model, x, pruner):
    """Positions of the visual tokens that entered each layer, of the one sample; and the states at the end."""
    positions = (x["input_ids"][0] == IMAGE).nonzero()[:, 0].tolist()
    with torch.no_grad(), pruner(model):
        states = family_of(model).base(model)(**x).last_hidden_state[0]
        live = pruner.survivors(model)
    return [[p for p, alive in zip(positions, mask[0].tolist(), strict=True) if alive] for mask in live], states


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_a_method_keeps_what_its_card_says(method, family, case):
    x, schedule = inputs(family, [CASES[case][0]]), Schedule(CASES[case][1])
    count = int((x["input_ids"] == IMAGE).sum())
    states, kept = naive.naive_run(build(family, "eager"), x, schedule.counts([count])[0].tolist(), METHODS[method])
    found, out = survivors(build(family), x, Pruner(method, schedule, record=True))
    assert found == kept
    for position, state in states.items():
        torch.testing.assert_close(out[position], state, atol=TOLERANCE, rtol=0)


@pytest.mark.parametrize("method", ["pyramiddrop", "dart", "v2drop"])
@pytest.mark.parametrize("family", ["qwen2_5_vl", "llava"])  # Gemma3 itself masks pictures of a second turn otherwise
def test_a_second_turn_on_a_pruned_cache_reads_what_one_pass_over_both_would(method, family):
    """What a scorer sees of a layer that has keys in the cache already: those count in its softmax."""
    model = build(family, "eager")
    first, second = inputs(family, [(words(6, 1),)]), inputs(family, [(*DEFAULT,)])
    both = inputs(family, [(words(6, 1), *DEFAULT)])
    both["pixel_values"] = second["pixel_values"]
    pruner = Pruner(method, Schedule((1.0, 0.7, 0.7, 0.3)), record=True)
    with torch.no_grad(), pruner(model):
        model(**both)
        whole = [mask.clone() for mask in pruner.survivors(model)]
        past = model(**first, use_cache=True).past_key_values
        second["attention_mask"] = torch.ones(1, both["input_ids"].shape[1], dtype=torch.long)
        if "position_ids" not in second and family.startswith("qwen"):
            second["position_ids"] = positions_of(model, both)[:, :, -second["input_ids"].shape[1] :]
        model(**second, past_key_values=past)
        later = pruner.survivors(model)
    assert all(torch.equal(a, b) for a, b in zip(whole, later, strict=True))


def positions_of(model, x):
    """M-RoPE positions of a whole prompt."""
    found = model.model.get_rope_index(
        x["input_ids"], x["mm_token_type_ids"], image_grid_thw=x["image_grid_thw"], attention_mask=x["attention_mask"]
    )
    return found[0]


@pytest.mark.parametrize("method", ["pyramiddrop", "vscan-inside", "dart", "v2drop"])
def test_a_resumed_prefix_gives_the_same_to_the_bit(method):
    model, x = build("llava"), batch("llava")
    prefix, pruner = Prefix(model, method), Pruner(method, Schedule((1.0, 1.0, 0.6, 0.3)))
    with torch.no_grad(), prefix.record():
        model(**x)
    straight = logits(model, x, pruner)
    with prefix.resume():
        assert torch.equal(logits(model, x, pruner), straight)


def test_a_probe_leaves_no_trace():
    """PyramidDrop asks a layer for its queries and keys; the cache, the hooks and the output are those of one run."""
    model, x = build("llava"), inputs("llava", [DEFAULT])
    ran = []
    handle = model.model.language_model.layers[2].register_forward_hook(lambda *_: ran.append(1))
    with torch.no_grad(), Pruner("pyramiddrop", Schedule((1.0, 1.0, 0.5, 0.5)))(model):
        cache = model(**x, use_cache=True).past_key_values
    handle.remove()
    assert [layer.keys.shape[-2] for layer in cache.layers] == [23, 23, 15, 15]
    assert len(ran) == 1


def test_equal_scores_go_to_the_earlier_token():
    context = ScoringContext(
        layer=1,
        layout=TokenLayout.build(torch.tensor([[True] * 6 + [False]])),
        live=torch.tensor([[True, False, True, True, True, True]]),
        counts=torch.tensor([3]),
        embeddings=torch.ones(1, 7, 4),
        merged_sizes=None,
        host_counts=(3,),
        hidden=torch.ones(1, 6, 4),
        previous_hidden=torch.zeros(1, 6, 4),
        text_hidden=torch.ones(1, 1, 4),
        source=AllEqual(),
    )
    for method in METHODS:
        if method not in (
            "topv",
            "sparsevlm(rank=0.9,bias=1)",
        ):  # one restores at even steps, the other counts by itself
            assert Chain.of(method).scorers[0].select(context).keep.tolist() == [
                [True, False, True, True, False, False]
            ]


class AllEqual:
    """Attention that prefers nobody."""

    def attention(self, *_, **__):
        return torch.full((1, 6), 0.1)

    def attention_flow(self, *_):
        return torch.full((1, 6), 0.1)

    def keys(self, rows):
        return torch.ones(1, 1 if rows == "text" else 6, 1, 4)


def test_the_rank_rule_is_asked_at_its_layers_and_lowers_what_the_schedule_allows():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    pruner = Pruner("sparsevlm(rank=1.5,bias=1,layers=[2])", Schedule.full(LAYERS))
    with torch.no_grad(), pruner(model):
        model(**x)
        counts = pruner.token_counts(model)[0].tolist()
    assert counts[:2] == [16, 16]
    assert counts[2] == counts[3] < 16


RECYCLED = {
    "one picture": (DEFAULT, 0.5),
    "two pictures": ((words(2, 1), picture(8, 8), words(3, 2), picture(3, 2), words(4, 3)), 0.3),
    "almost all": (DEFAULT, 0.9),
    "down to one token": ((words(4, 4), picture(2, 3), words(3, 1)), 0.06),
}


@pytest.mark.parametrize("case", RECYCLED)
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_recycled_tokens_are_the_means_of_a_naive_clustering(family, case):
    sample, share = RECYCLED[case]
    x, seen = inputs(family, [sample]), {}
    count = int((x["input_ids"] == IMAGE).sum())
    stay = max(1, int(count * share + 0.5))
    counts = [count, count, stay, stay]

    def choose(b):
        seen["kept"], seen["means"] = naive.sparsevlm_recycling(b)
        seen["states"] = {t: b.hidden[b.at(t)] for t in b.tokens}
        return seen["kept"]

    naive.naive_run(build(family, "eager"), x, counts, choose)
    model, pruner = (
        build(family),
        Pruner("sparsevlm(recycle=true)", Schedule.from_counts(torch.tensor(counts), count), record=True),
    )
    positions = (x["input_ids"][0] == IMAGE).nonzero()[:, 0].tolist()
    with torch.no_grad(), pruner(model):
        handed = record_layers(model, x)[2][0][0]
        live = pruner.survivors(model)[2][0].tolist()
    assert [p for p, alive in zip(positions, live, strict=True) if alive] == seen["kept"]
    left = [t for t in seen["states"] if t not in positions or t in seen["kept"]]
    wanted = torch.stack([seen["means"].get(t, seen["states"][t]) for t in left])
    torch.testing.assert_close(handed, wanted, atol=TOLERANCE, rtol=0)


def test_recycling_takes_equal_tokens_in_their_order():
    layout = TokenLayout.build(torch.tensor([[True] * 40 + [False]]))
    live = torch.ones(1, 40, dtype=torch.bool)
    context = ScoringContext(3, layout, live, torch.tensor([12]), torch.zeros(1, 41, 4), torch.ones(1, 40), (12,))
    context.hidden = torch.ones(1, 40, 4)
    stays, into = recycle(context, torch.full((1, 40), 0.5), context.counts)
    assert stays[0].nonzero()[:, 0].tolist() == list(range(12))
    assert sorted(set(into[into >= 0].tolist())) == [11]  # 29 are left, of which 9 are recycled around one centre
    assert (into[0] >= 0).nonzero()[:, 0].tolist() == list(range(11, 20))


def test_recycled_centres_come_on_top_of_the_published_survivors():
    """SparseVLM's code keeps 300 of 576 and adds 9 centres of 83 recycled tokens; told to keep 309, the same is done."""
    layout = TokenLayout.build(torch.tensor([[True] * 576 + [False]]))
    live, generator = torch.ones(1, 576, dtype=torch.bool), torch.Generator().manual_seed(0)
    context = ScoringContext(3, layout, live, torch.tensor([309]), torch.zeros(1, 577, 4), torch.ones(1, 576), (309,))
    context.hidden = torch.randn(1, 576, 4, generator=generator)
    scores = torch.rand(1, 576, generator=generator)
    stays, into = recycle(context, scores, context.counts)
    assert int(stays.sum()) == 309
    assert int((into >= 0).sum()) == 83
    assert len(set(into[into >= 0].tolist())) == 9
