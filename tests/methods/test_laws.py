"""What holds for every scorer in the registry, alone and in every kind of chain, on the three families of models.

Nobody is named here: a scorer is held against these laws as soon as it is registered. VARIANTS are options that change what a
registered scorer reads or how its tokens leave, and a chain.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from itertools import pairwise

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from engine.test_flops import counted
from engine.test_tower_cut import whole_flops
from methods.test_learned import fresh
from methods.tower import DEPTH, deep
from tiny import DEFAULT, FIRST_CLASS, IMAGE, LAYERS, inputs, picture, words
from vispco import Pruner, Schedule, cost, scorers
from vispco.core.errors import InvalidInputError
from vispco.engine import TokenPlan
from vispco.families import family_of
from vispco.scorers import ALLOCATIONS, SCORERS, Chain, MixedChain
from vispco.scorers.base import VisionNeeds
from vispco.scorers.cost import ChainScoring, workload_under
from vispco.scorers.learned import LearnedScorer

VARIANTS = [
    "sparsevlm(recycle=true)",
    "sparsevlm(rank=0.9,bias=1)",
    "fitprune(site=entry)",
    "himap(rows=visual)",
    "priortr(rows=text)",
    "cdpruner(variant=openvino,relevance_weight=0.3)",
    "visionzip(merge=false,contextual=0.3)",
    "vispruner(important_ratio=0.1)",
    "prumerge(merge=false)",
    "prumerge(adaptive=false)",
    "hiprune(alpha=0.8,block=0.5)",
    "vscan(merge=false,block=0.5)",
    "divprune+fastv@2",
]
METHODS = [*SCORERS, *VARIANTS]
KINDS = ["after another", *(f"{name}:" for name in ALLOCATIONS), "beside another"]
SAMPLES = [
    DEFAULT,
    (words(1, 3), picture(2, 3), words(4, 7), picture(3, 5), words(5, 4)),
    (words(4, 7),),
    (words(3, 5), picture(1, 1), words(2, 6)),
]
WAYS = {"left": ("sdpa", (0.8, 0.7, 0.7, 0.3)), "right": ("eager", (0.6, 0.5, 0.02, 0.0))}  # padding: kernel, schedule
BY_SAMPLE = ("input_ids", "attention_mask", "mm_token_type_ids", "token_type_ids")
TOLERANCE = 1e-4
AT_MOST = ("aim-merge", "visionzip", "atp-llava", "cdpruner")  # charged what they may take, on a device


@cache
def chain_of(method, family, kind="alone"):
    """A method of the registry as a chain; a learned one with weights that are drawn."""
    learned = method in SCORERS and issubclass(SCORERS.get(method), LearnedScorer)
    chain = Chain.of(fresh(method, deep(family)) if learned else method)
    (first, scorer), other = chain.stages[0], SCORERS.get("random")(seed=5)
    if kind == "after another":
        return Chain(((0, other), (max(first, 2), scorer)))
    if kind == "beside another":
        return MixedChain.of_chains([chain, "divprune+v2drop"])
    return chain if kind == "alone" else chain.with_allocation(kind.rstrip(":"))


def plan_of(chain, retention):
    """A schedule that begins where the chain may; in a mixture every second sample follows the other chain."""
    schedule = Schedule((1.0,) * chain.earliest_layer + tuple(retention[chain.earliest_layer :]))
    if not isinstance(chain, MixedChain):
        return schedule

    def plan(layout, _):
        groups = tuple(row % 2 for row in range(layout.batch_size))
        own = [Schedule((1.0,) * c.earliest_layer + tuple(retention[c.earliest_layer :])) for c in chain.chains]
        rows = [own[g].counts([n])[0] for g, n in zip(groups, layout.num_visual, strict=True)]
        return TokenPlan(torch.stack(rows), groups=groups)

    return plan


def planned(chain, retention, layout):
    plan = plan_of(chain, retention)
    return plan.counts(layout.num_visual) if isinstance(plan, Schedule) else plan(layout, None).counts


@torch.no_grad()
def run(model, x, chain, plan, mode="drop"):
    """(logits, counts [B, L], masks of those who are live [L][B, V]) of one pass."""
    pruner = Pruner(chain, plan, mode=mode, record=True)
    with pruner(model):
        return model(**x).logits, pruner.token_counts(model), pruner.survivors(model)


@cache
def whole(family, attention, side):
    with torch.no_grad():
        return deep(family, attention)(**inputs(family, SAMPLES, side=side)).logits


def alone(family, number):
    """One sample by itself, with the pixels that it has in the batch."""
    x = inputs(family, [()] * number + [SAMPLES[number]])
    return {key: value[number:] if key in BY_SAMPLE else value for key, value in x.items()}


def text_of(x):
    return x["attention_mask"].bool() & (x["input_ids"] != IMAGE)


@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_keeping_all_tokens_changes_no_bit(method, family):
    chain, x = chain_of(method, family), inputs(family, SAMPLES)
    full = Schedule.full(LAYERS)
    logits, counts, _ = run(deep(family), x, chain, full)
    masked, same, _ = (logits, counts, None) if chain.merges else run(deep(family), x, chain, full, "mask")
    assert torch.equal(counts, same)
    if chain.decides_count:  # a threshold prunes what the schedule does not
        assert (masked - logits)[text_of(x)].abs().max() <= TOLERANCE
    else:
        assert torch.equal(logits, whole(family, "sdpa", "left"))
        assert torch.equal(masked, logits)
        assert torch.equal(counts, full.counts(family_of(deep(family)).layout(deep(family), x).num_visual))


@pytest.mark.parametrize("method", METHODS)
def test_who_does_not_read_the_question_keeps_the_same_for_every_one(method):
    """So that a cached picture serves another question. `cdpruner` reads it, and keeps others for some."""
    family = FIRST_CLASS[0]
    chain, retention = chain_of(method, family), (0.5, 0.4, 0.4, 0.3)
    kept = []
    for seed in range(4):
        x = inputs(family, [(words(2, 1), picture(), words(5, seed))])
        kept.append(torch.stack(run(deep(family), x, chain, plan_of(chain, retention))[2]))
    same = all(torch.equal(each, kept[0]) for each in kept)
    assert same or chain.reads_question
    if method == "cdpruner":
        assert not same


@pytest.mark.parametrize("side", WAYS)
@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_a_scorer_keeps_what_is_planned_in_any_batch_dropped_or_masked(method, family, side):
    check_laws(chain_of(method, family), family, side)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", SCORERS)
def test_so_does_every_kind_of_chain(method, kind):
    place = list(SCORERS).index(method)  # every kind of chain sees every family, and every scorer every kind
    family, side = FIRST_CLASS[place % 3], list(WAYS)[place // 3 % 2]
    inner = chain_of(method, family)
    if kind == "beside another" and (inner.merges or inner.decides_count or inner.scorers[0].site == "mid"):
        with pytest.raises(InvalidInputError, match=r"cannot share a batch|two kinds of places"):
            chain_of(method, family, kind)
        return
    check_laws(chain_of(method, family, kind), family, side)


def check_laws(chain, family, side):
    attention, retention = WAYS[side]
    model, x = deep(family, attention), inputs(family, SAMPLES, side=side)
    plan, text = plan_of(chain, retention), text_of(x)
    logits, counts, live = run(model, x, chain, plan)
    assert bool(logits[text].isfinite().all())
    most = planned(chain, retention, family_of(model).layout(model, x))
    assert bool((counts <= most).all() if chain.decides_count else (counts == most).all())
    assert torch.equal(counts, torch.stack([mask.sum(-1) for mask in live], dim=-1))
    assert all(bool((after <= before).all()) for before, after in pairwise(live))
    assert not torch.allclose(logits[text], whole(family, attention, side)[text]), "nothing was pruned"
    if chain.merges:
        with pytest.raises(InvalidInputError, match="cannot be expressed by a mask"):
            run(model, x, chain, plan, "mask")
    else:
        masked, same, _ = run(model, x, chain, plan, "mask")
        assert torch.equal(same, counts)
        assert (masked - logits)[text].abs().max() <= TOLERANCE
    for row in range(len(SAMPLES)):
        mine, own = alone(family, row), x["attention_mask"][row].bool()
        if not bool((mine["input_ids"] == IMAGE).any()):  # nothing to prune: the row is that of the model itself
            single = whole(family, attention, side)[row : row + 1, own]
        else:
            by_itself = chain.chains[row % 2] if isinstance(chain, MixedChain) else chain
            single, own_counts, _ = run(model, mine, by_itself, plan_of(by_itself, retention))
            assert torch.equal(own_counts[0], counts[row])
        assert (single[0] - logits[row][own])[text_of(mine)[0]].abs().max() <= TOLERANCE


@pytest.mark.parametrize("family", FIRST_CLASS)
@pytest.mark.parametrize("method", METHODS)
def test_the_bill_of_model_and_scorer_is_what_torch_counts(method, family):
    """Eager attention, of which the counter sees every product of the language model; the tower's rows are outside of it.

    Some scorers are charged at most what they may take (docs/limits.md).
    """
    model, x, chain = deep(family, "eager"), inputs(family, [DEFAULT]), chain_of(method, family).for_model(deep(family))
    layout, exact = family_of(model).layout(model, x), cost.get("exact", model.config)
    plan = plan_of(chain, (0.7, 0.7, 0.5, 0.3))
    _, counts, _ = run(model, x, chain, plan)
    load = workload_under(chain, exact.dimensions, layout.num_text, layout.num_visual, layout.num_instruction)
    unread = replace(load, scoring=ChainScoring(chain, exact.dimensions, VisionNeeds()))
    with sdpa_kernel(SDPBackend.MATH):
        spent = counted(model, x, Pruner(chain, plan))
    billed = int(exact.bill(counts, unread)[0])
    assert spent <= billed if any(name in str(chain) for name in AT_MOST) else spent == billed
    assert int(exact.bill(counts, load)[0]) - billed == (
        0 if not (chain.needs_vision.attention or chain.needs_vision.received) else tower_rows(chain, exact, layout)
    )


def tower_rows(chain, exact, layout):
    """FLOPs of the attention rows of the tower that a chain reads, picture for picture."""
    size, (visual,) = exact.dimensions.vision, layout.num_visual
    patches = visual * size.patches + size.class_tokens
    needs = chain.needs_vision
    rows = len(needs.received) * patches + len(needs.attention) * (1 if size.class_tokens else patches)
    return 2 * rows * patches * size.width


@pytest.mark.parametrize("family", ["qwen2_5_vl", "llava"])
@pytest.mark.parametrize("method", [name for name in SCORERS if scorers.get(name).serves_tower])
def test_a_scorer_that_serves_the_vision_tower_is_charged_there_to_the_digit(method, family):
    scorer = scorers.get(method)  # merging is priced from above behind the tower, and videos are not merged inside it
    behind = "divprune" if scorer.merges or Chain.of(method).needs_vision else method
    clip = picture(3, 4, frames=3) if family.startswith("qwen") and not scorer.merges else picture()
    model, x = deep(family), inputs(family, [(words(2, 1), clip, words(5, 2))])
    behind, first = (behind, 0) if scorers.get(behind).earliest_layer == 0 else (f"{behind}@1", 1)
    schedule = Schedule.stages({first: 0.4, 2: 0.2}, LAYERS).with_tower(
        {1: 0.8, 2: 0.6}, DEPTH, rebuilt=scorer.rebuilds
    )
    pruner = Pruner(f"{method}@tower.1+{behind}", schedule)
    with pruner(model):
        found = whole_flops(model, x)
        spent = int(pruner.tower_flops(model))
        spent += int(cost.get("exact", model.config).bill(pruner.token_counts(model), pruner.workload(model)))
    assert found == spent
