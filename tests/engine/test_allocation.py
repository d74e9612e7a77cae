"""How a sample's tokens are divided over its pictures: the rule by itself, and inside of models."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tiny import FIRST_CLASS, LAYERS, build, inputs, picture, words
from vispco import InvalidInputError, Pruner, Schedule
from vispco.engine.plan import TokenPlan
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain, MixedChain, Scorer, get
from vispco.scorers.allocation import ALLOCATIONS, SEATS, divide, picture_sizes

DIVIDED = tuple(SEATS)
SIZES = st.lists(st.integers(0, 12), min_size=1, max_size=6)
SCHEDULE = Schedule((1.0, 0.6, 0.6, 0.3))
EARLY = Schedule((0.7, 0.7, 0.5, 0.2))
TWO = [
    (words(2, 1), picture(4, 4), words(2, 2), picture(2, 3), words(3, 3)),
    (words(1, 4), picture(3, 3), words(5, 5), picture(3, 4), words(2, 6), picture(1, 1), words(2, 7)),
]
CLIP = [(words(2, 1), picture(2, 3, frames=4), words(4, 2)), (words(1, 3), picture(2, 2, frames=2), words(4, 5))]
RATED = ("fastv", "sparsevlm", "fitprune", "random", "uniform", "v2drop")
SETS = ("divprune", "cdpruner", "dart", "btp", "visionzip(merge=false)", "scope", "hiprune")
MERGING = ("sparsevlm(recycle=true)", "aim-merge", "visionzip", "vscan", "prumerge")
TOLERANCE = 1e-4


def one_by_one(allocation, sizes, count):
    """The naive rule: seat after seat, each to whoever is next."""
    quotas = [0] * len(sizes)
    for _ in range(min(count, sum(sizes))):
        free = [n for n, size in enumerate(sizes) if quotas[n] < size]
        if allocation == "equal":
            winner = min(free, key=lambda n: (quotas[n], n))
        else:  # the highest average, as votes are counted by Webster
            winner = max(free, key=lambda n: (sizes[n] / (2 * quotas[n] + 1), -n))
        quotas[winner] += 1
    return quotas


@pytest.mark.parametrize("allocation", DIVIDED)
@given(sizes=SIZES, count=st.integers(0, 80))
def test_quotas_are_those_of_a_naive_loop(allocation, sizes, count):
    found = divide(allocation, np.array([sizes]), np.array([count]))[0].tolist()
    assert found == one_by_one(allocation, sizes, count)
    assert sum(found) == min(count, sum(sizes))
    assert all(0 <= quota <= size for quota, size in zip(found, sizes, strict=True))


@pytest.mark.parametrize("allocation", DIVIDED)
@given(sizes=SIZES, count=st.integers(0, 80), fewer=st.integers(0, 80))
def test_a_smaller_count_never_gives_a_picture_more(allocation, sizes, count, fewer):
    more, less = (
        divide(allocation, np.array([sizes]), np.array([n]))[0] for n in (max(count, fewer), min(count, fewer))
    )
    assert (less <= more).all()


@given(sizes=SIZES, count=st.integers(0, 80))
def test_equal_means_equal_where_every_picture_has_enough(sizes, count):
    found = divide("equal", np.array([sizes]), np.array([count]))[0]
    short = found == np.array(sizes)  # these gave what they could not use to the others
    assert short.all() or np.ptp(found[~short]) <= 1
    assert short.all() or (found[short] <= found[~short].min() + 1).all()


@given(sizes=SIZES, share=st.floats(0, 1))
def test_by_size_every_picture_keeps_about_the_same_share(sizes, share):
    count = round(share * sum(sizes))
    found = divide("size", np.array([sizes]), np.array([count]))[0]
    exact = np.array(sizes) * count / max(sum(sizes), 1)
    assert (np.abs(found - exact) <= len(sizes)).all()
    if len(sizes) == 2:
        assert (np.abs(found - exact) <= 1).all()


def test_what_a_method_has_dropped_by_itself_is_not_given_out_again():
    left = divide("equal", np.array([[8, 8, 8]]), np.array([9]), np.array([[1, 0, 8]]))
    assert left.tolist() == [[1, 0, 8]]


def test_a_batch_is_divided_row_by_row():
    sizes, counts = np.array([[5, 0, 2], [1, 9, 4]]), np.array([4, 7])
    for allocation in DIVIDED:
        alone = [divide(allocation, sizes[[b]], counts[[b]])[0].tolist() for b in range(2)]
        assert divide(allocation, sizes, counts).tolist() == alone


def survivors(model, x, pruner):
    with torch.no_grad(), pruner(model):
        logits = model(**x, use_cache=False).logits
        return logits, pruner.survivors(model), pruner.token_counts(model)


def layout_of(model, x):
    from vispco.families import family_of

    return family_of(model).layout(model, x)


def schedule_for(scorer):
    return EARLY if Chain.of(scorer).earliest_layer == 0 else SCHEDULE


@pytest.mark.parametrize("allocation", DIVIDED)
@pytest.mark.parametrize("scorer", [*RATED, *SETS, *MERGING])
def test_every_picture_keeps_its_quota_at_every_layer(scorer, allocation):
    model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", TWO)
    pruner = Pruner(scorer, schedule_for(scorer), record=True, allocation=allocation)
    _, kept, counts = survivors(model, x, pruner)
    layout = layout_of(model, x)
    sizes = picture_sizes(layout)
    assert sizes.tolist() == [[16, 6, 0], [9, 12, 1]]
    decides = Chain.of(scorer).decides_count
    planned = schedule_for(scorer).counts(layout.num_visual)
    for layer in range(LAYERS):
        quotas = divide(allocation, sizes, planned[:, layer].numpy())
        for b in range(2):
            found = [int(kept[layer][b, torch.from_numpy(layout.picture_at[b] == n)].sum()) for n in range(3)]
            assert sum(found) == int(counts[b, layer])
            if decides:
                assert sum(found) <= int(planned[b, layer])
            else:
                assert found == quotas[b].tolist()


@pytest.mark.parametrize("allocation", DIVIDED)
@pytest.mark.parametrize("scorer", RATED)
def test_a_rating_keeps_the_best_of_each_picture(scorer, allocation):
    """Held against a loop over pictures, with the scores that the scorer gave for the whole sample."""
    model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", TWO)
    seen = []

    class Watched(type(get(scorer))):
        def score(self, context):
            scores = super().score(context)
            seen.append((context.live, scores, context.host_counts))
            return scores

    _, kept, _ = survivors(model, x, Pruner(Watched(), schedule_for(scorer), record=True, allocation=allocation))
    layout = layout_of(model, x)
    sizes, chosen = picture_sizes(layout), [layer for layer in range(LAYERS) if layer == 0 or not same(kept, layer)]
    chosen = [layer for layer in chosen if layer or Chain.of(scorer).earliest_layer == 0]
    assert len(seen) == len(chosen) == 2 + (Chain.of(scorer).earliest_layer == 0)
    for layer, (live, scores, counts) in zip(chosen, seen, strict=True):
        for b in range(2):
            wanted = set()
            for n, quota in enumerate(one_by_one(allocation, sizes[b].tolist(), counts[b])):
                slots = [v for v in range(live.shape[1]) if layout.picture_at[b, v] == n and live[b, v]]
                wanted |= set(sorted(slots, key=lambda v: (-float(scores[b, v]), v))[:quota])
            assert set(kept[layer][b].nonzero()[:, 0].tolist()) == wanted


def same(kept, layer):
    return torch.equal(kept[layer], kept[layer - 1])


@pytest.mark.parametrize("allocation", DIVIDED)
@pytest.mark.parametrize("scorer", ["divprune", "cdpruner", "btp"])
def test_a_set_is_chosen_in_each_picture_as_if_it_were_alone(scorer, allocation):
    """One picture after the other, hidden from the method: what it then keeps is what it keeps in the division."""
    model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", TWO)
    seen = []

    class Watched(type(get(scorer))):
        def select(self, context):
            found = super().select(context)
            seen.append((context.live, found.keep))
            return found

    survivors(model, x, Pruner(Watched(), schedule_for(scorer), record=True, allocation=allocation))
    layout = layout_of(model, x)
    assert seen
    for live, keep in seen:
        for b in range(2):
            assert len({int(layout.picture_at[b, v]) for v in live[b].nonzero()[:, 0]}) <= 1
            assert bool((keep[b] <= live[b]).all())


@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("allocation", DIVIDED)
@pytest.mark.parametrize("scorer", ["fastv", "fitprune", "divprune+fastv", "dart", "uniform"])
def test_masking_equals_dropping_under_every_allocation(scorer, allocation, family):
    model, x = build(family), inputs(family, TWO)
    text = x["attention_mask"].bool() & (x["input_ids"] != 5)
    dropped, kept, _ = survivors(model, x, Pruner(scorer, schedule_for(scorer), record=True, allocation=allocation))
    masked, also, _ = survivors(
        model, x, Pruner(scorer, schedule_for(scorer), record=True, allocation=allocation, mode="mask")
    )
    assert all(torch.equal(a, b) for a, b in zip(kept, also, strict=True))
    assert (dropped - masked)[text].abs().max() <= TOLERANCE


@pytest.mark.parametrize("scorer", ["fastv", "divprune", "sparsevlm(recycle=true)", "prumerge"])
def test_one_picture_is_pruned_as_ever(scorer):
    model, x = build("llava"), inputs("llava", [(words(2, 1), picture(), words(4, 2))])
    found = [survivors(model, x, Pruner(scorer, schedule_for(scorer), record=True, allocation=a)) for a in ALLOCATIONS]
    for logits, kept, _ in found[1:]:
        assert all(torch.equal(a, b) for a, b in zip(kept, found[0][1], strict=True))
        assert (logits - found[0][0]).abs().max() <= 1e-6


@pytest.mark.parametrize("allocation", DIVIDED)
@pytest.mark.parametrize("scorer", ["fastv", "divprune", "aim-merge"])
def test_a_frame_is_a_picture(scorer, allocation):
    model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", CLIP)
    _, kept, _ = survivors(model, x, Pruner(scorer, schedule_for(scorer), record=True, allocation=allocation))
    layout = layout_of(model, x)
    assert picture_sizes(layout).tolist() == [[6, 6, 6, 6], [4, 4, 0, 0]]
    for mask in kept:
        found = [mask[0, 6 * n : 6 * n + 6].sum().item() for n in range(4)]
        assert max(found) - min(found) <= 1


def test_the_choice_has_scores_that_a_relaxation_can_rank_by():
    """Where a search takes a gradient: the kept tokens are those with the best scores, as without a division."""
    model, x, seen = build("qwen2_5_vl"), inputs("qwen2_5_vl", TWO), []

    def relaxation(scores, live, keep, _retention):
        order = scores.masked_fill(~live, -torch.inf).sort(dim=-1, descending=True, stable=True).indices
        best = [set(order[b, : int(keep[b].sum())].tolist()) for b in range(len(keep))]
        seen.extend(best[b] == set(keep[b].nonzero()[:, 0].tolist()) for b in range(len(keep)))
        return keep.float()

    def planner(layout, _):
        counts = SCHEDULE.counts(layout.num_visual)
        return TokenPlan(counts, retention=torch.tensor([SCHEDULE.retention] * 2))

    for scorer in ("fastv", "btp"):
        for allocation in DIVIDED:
            pruner = Pruner(scorer, planner, mode="mask", relaxation=relaxation, allocation=allocation)
            with torch.no_grad(), pruner(model):
                model(**x, use_cache=False)
    assert len(seen) == 2 * 2 * 2 * 2
    assert all(seen)


def test_chains_of_a_batch_may_divide_in_different_ways():
    model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", TWO)
    chains, schedule = ("equal:divprune+fastv", "size:fastv"), Schedule((1.0, 0.5, 0.5, 0.3))

    def planner(layout, _):
        return TokenPlan(schedule.counts(layout.num_visual), groups=(0, 1))

    _, together, _ = survivors(model, x, Pruner(MixedChain.of_chains(chains), planner, record=True))
    for b, chain in enumerate(chains):
        _, alone, _ = survivors(model, x, Pruner(chain, schedule, record=True))
        assert all(torch.equal(a[b], t[b]) for a, t in zip(alone, together, strict=True))


def test_an_allocation_is_part_of_a_chain_and_of_a_saved_pruner(tmp_path):
    chain = Chain.of("equal:sparsevlm(recycle=true)@2+random@3")
    assert (chain.allocation, chain.name) == ("equal", "equal:sparsevlm+random")
    assert Chain.of(str(chain)) == Chain.of(chain.to_dict()) == chain
    assert chain != chain.with_allocation("score") == Chain.of("sparsevlm(recycle=true)@2+random@3")
    assert "allocation" not in chain.with_allocation("score").to_dict()
    pruner = Pruner("fastv", SCHEDULE, allocation="size")
    pruner.save_pretrained(tmp_path)
    assert Pruner.from_pretrained(tmp_path).chain.allocation == "size"
    other = Pruner.from_pretrained(tmp_path, allocation="equal")
    assert other.chain.allocation == "equal"
    other.save_pretrained(tmp_path / "other")
    again = PrunerSpec.load(tmp_path / "other" / "pruner.json")
    assert again.allocation == "equal"
    assert Pruner.from_pretrained(tmp_path / "other").chain.allocation == "equal"
    mixed = MixedChain.of_chains(["fastv", "divprune"]).with_allocation("equal")
    assert [each.allocation for each in mixed.chains] == ["equal", "equal"]


@pytest.mark.parametrize(
    "make", [lambda: Pruner("fastv", SCHEDULE, allocation="fair"), lambda: Chain.of("fastv").with_allocation("")]
)
def test_an_unknown_allocation_is_refused_in_a_sentence(make):
    with pytest.raises(InvalidInputError, match="score, equal, size"):
        make()


def test_what_a_divided_scorer_needs_is_what_the_scorer_needs():
    for name in (*RATED, *SETS, *MERGING):
        plain, divided = Chain.of(name).scorer_at(3), Chain.of(f"equal:{name}").scorer_at(3)
        for each in vars(Scorer):
            if each.startswith("needs") or each in ("site", "merges", "decides_count", "earliest_layer", "rates"):
                assert getattr(divided, each) == getattr(plain, each)
        assert divided.attention_rows(10, 100) == plain.attention_rows(10, 100)
        assert divided.name == plain.name


@pytest.mark.parametrize("family", ["llava", "gemma3"])  # Qwen wants text between pictures
def test_pictures_are_told_apart_where_they_touch_and_come_as_features(family):
    """Two pictures without text between them, in a forward pass and in `generate()`, which encodes them beforehand."""
    model, x = build(family), inputs(family, [(words(2, 1), picture(), picture(), words(4, 2))])
    pruner = Pruner("uniform", Schedule((0.5, 0.5, 0.5, 0.25)), record=True, allocation="equal")
    with torch.no_grad(), pruner(model):
        model(**x)
        kept = pruner.survivors(model)
        model.generate(**x, max_new_tokens=1, do_sample=False)
        generated = pruner.survivors(model)
    assert [mask[0].view(2, 16).sum(-1).tolist() for mask in kept] == [[8, 8]] * 3 + [[4, 4]]
    assert all(torch.equal(a, b) for a, b in zip(kept, generated, strict=True))


@pytest.mark.parametrize("samples", [TWO, CLIP, [CLIP[0], TWO[1]]], ids=["pictures", "videos", "both"])
@pytest.mark.parametrize("family", ["qwen2_5_vl", "qwen2_vl", "qwen3_vl"])
def test_generate_divides_as_a_forward_pass_does(family, samples):
    """`generate()` hands neither pixels nor grids to the model; the grid is then read off the positions."""
    model, x = build(family), inputs(family, samples)
    pruner = Pruner("uniform", EARLY, record=True, allocation="equal")
    with torch.no_grad(), pruner(model):
        model.generate(**x, max_new_tokens=1, do_sample=False)
        generated = pruner.survivors(model)
        model(**x, use_cache=False)
        kept = pruner.survivors(model)
    layout = layout_of(model, x)
    assert all(torch.equal(a, b) for a, b in zip(kept, generated, strict=True))
    want = divide("equal", *_sizes_and_counts(samples, layout.num_visual))
    for b, mask in enumerate(generated[-1]):
        ends = np.cumsum(_pictures(samples[b]))
        found = [int(part.sum()) for part in np.split(mask.numpy()[: ends[-1]], ends[:-1])]
        assert found == want[b][: len(found)].tolist()


def _pictures(sample):
    """Tokens of each picture or frame of a sample."""
    return [part.image[0] * part.image[1] for part in sample if part.image for _ in range(max(part.frames, 1))]


def _sizes_and_counts(samples, num_visual):
    rows = [_pictures(sample) for sample in samples]
    width = max(map(len, rows))
    sizes = np.array([row + [0] * (width - len(row)) for row in rows])
    return sizes, EARLY.counts(num_visual)[:, -1].numpy()
