"""A budget pays for choosing, too: attention rows, similarities, merging, the plan, and tokens that may not leave."""

import warnings

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.formulas import plateaus
from vispco import cost, kernels
from vispco.cost import BudgetWarning, Dimensions, Measured, Workload
from vispco.cost.dimensions import VisionSize
from vispco.cost.host import HostPricing
from vispco.scorers import Chain, MixedChain
from vispco.scorers.base import SCORERS
from vispco.scorers.cost import ChainScoring, scoring_flops, workload_under

L = 8
SIZE = Dimensions(
    num_layers=L, hidden=64, heads=4, kv_heads=2, head_dim=16, ffn=160, gated=True,
    windows=(None,) * L, vocab=9, dtype_bytes=2, vision=VisionSize(width=24, heads=4, patches=4),
)  # fmt: skip
LAW = settings(max_examples=60, deadline=None)
chains = st.sampled_from([*sorted(SCORERS), "divprune+fastv", "cdpruner+sparsevlm@3+random@6", "fitprune@2+vtw@5"])
samples = st.lists(
    st.tuples(st.floats(0.05, 1), st.integers(1, 40), st.integers(0, 150), st.integers(0, 3), st.integers(0, 40)),
    min_size=1,
    max_size=4,
)
curves = st.lists(st.floats(0, 1), min_size=L, max_size=L).map(lambda r: sorted(r, reverse=True))


def naive(chain, counts, num_text, num_instruction, num_visual):
    """FLOPs of scoring, choice by choice."""
    total, before, busy = 0, num_visual, []
    width = SIZE.heads * SIZE.head_dim
    for layer, count in enumerate(counts):
        scorer = chain.scorer_at(layer)
        if scorer is not None and num_visual and (count < before or scorer.acts_at(layer)):
            tokens = num_text + before
            if layer or scorer.needs_entering:
                total += scorer.attention_rows(num_instruction, before) * tokens * 2 * width
            if scorer.needs_entering:
                total += tokens * SIZE.hidden * (2 * width + 4 * SIZE.kv_heads * SIZE.head_dim)
            total += int(scorer.choice_flops(tokens, num_visual, SIZE))
            total += int(scorer.flops_per_kept(num_visual, SIZE)) * count
            busy.append(max(first for first, _ in chain.stages if first <= layer))
        before = count
    for first in set(busy):
        total += int(dict(chain.stages)[first].setup_flops(num_instruction, num_visual, SIZE))
    patches = num_visual * SIZE.vision.patches
    reads = len(chain.needs_vision.received) + len(chain.needs_vision.attention)
    return total + (2 * reads * patches**2 * SIZE.vision.width if num_visual else 0)


@LAW
@given(chains, st.integers(1, 30), st.integers(0, 30), st.lists(st.integers(0, 120), min_size=L + 1, max_size=L + 1))
def test_scoring_is_the_sum_of_its_choices(name, text, asked, numbers):
    chain = Chain.of(name)
    visual, *counts = sorted(numbers, reverse=True)
    assert scoring_flops(chain, SIZE, counts, text, asked, visual) == naive(chain, counts, text, asked, visual)
    load = workload_under(chain, SIZE, text, visual, asked)
    exact, kept = cost.get("exact", SIZE), torch.tensor(counts)
    assert int(exact.bill(kept, load)) == int(exact.price(kept, load)) + naive(chain, counts, text, asked, visual)


@LAW
@given(chains, samples, curves, st.sampled_from(["exact", "paper"]))
def test_no_bill_exceeds_its_budget_and_no_plateau_could_have_one_token_more(name, rows, curve, model):
    chain, price = Chain.of(name), cost.get(model, SIZE)
    budget, text, visual, read, asked = (torch.tensor(column) for column in zip(*rows, strict=True))
    load = workload_under(chain, SIZE, text, visual, torch.minimum(asked, text), read)
    curve = torch.tensor(curve, dtype=torch.float64)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        counts = cost.snap(curve, budget.double(), load, price)
    limit = torch.maximum(budget.double(), price.lowest_fraction(load))
    spent = price.fraction_of_counts(counts, load)
    whole = (counts == visual[:, None]).all(-1)
    always = torch.from_numpy(ChainScoring(chain, SIZE).always(L)).any()
    assert bool(((spent <= limit) | (whole & (budget >= 1) & ~always)).all())
    assert bool((counts >= torch.minimum(read, visual)[:, None]).all())
    assert bool((counts[:, : chain.earliest_layer] == visual[:, None]).all())
    assert bool((counts.diff(dim=-1) <= 0).all())
    for b, row in enumerate(counts.tolist()):
        for first, end in plateaus(row):
            before = int(visual[b]) if first == 0 else row[first - 1]
            if row[first] >= before:
                continue
            more = torch.tensor(row)
            more[first:end] += 1
            if more[first] < before:  # one that closes a gap makes a choice needless, and is cheaper
                one = load.each(lambda numbers, place=b: numbers[place])
                assert float(price.fraction_of_counts(more, one)) > float(limit[b])


@LAW
@given(chains, st.floats(0.05, 1), st.integers(1, 30), st.integers(1, 150))
def test_kernels_are_solved_with_scoring(name, budget, text, visual):
    chain, price = Chain.of(name), cost.get("exact", SIZE)
    kernel = kernels.get("steps", earliest_layer=chain.earliest_layer)
    load = workload_under(chain, SIZE, [text], [visual])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        limit = torch.tensor([budget], dtype=torch.float64)
        counts = cost.counts_for_budget(kernel, kernel.initial(L)[None], limit, load, price)
    assert float(price.fraction_of_counts(counts, load)[0]) <= max(budget, float(price.lowest_fraction(load)[0]))


def test_a_dear_scorer_keeps_fewer_tokens_than_a_free_one():
    price = cost.get("exact", SIZE)
    tokens = {}
    for name in ("random", "fastv", "aim"):
        load = workload_under(Chain.of(name), SIZE, [9], [200])
        curve = torch.tensor([1.0, 1.0, 1.0, 0.5, 0.5, 0.5, 0.5, 0.5])
        tokens[name] = int(cost.snap(curve, torch.tensor([0.6]), load, price).sum())
    assert tokens["random"] > tokens["fastv"] > tokens["aim"]


def test_a_plan_is_paid_for():
    price, chain = cost.get("exact", SIZE), Chain.of("random")
    curve, budget = torch.full((L,), 0.5), torch.tensor([0.4])
    full = int(price.full(Workload(10, 100)))
    free = workload_under(chain, SIZE, [10], [100])
    paid = workload_under(chain, SIZE, [10], [100], planning_flops=[full // 10])
    for load in (free, paid):
        counts = cost.snap(curve, budget, load, price)
        assert float(price.bill(counts, load)[0]) <= 0.4 * full
    assert int(cost.snap(curve, budget, paid, price).sum()) < int(cost.snap(curve, budget, free, price).sum())


def test_nothing_is_pruned_at_a_budget_of_one():
    load = workload_under(Chain.of("aim"), SIZE, [10], [100], planning_flops=[10**6])
    counts = cost.snap(torch.full((L,), 0.7), torch.tensor([1.0]), load, cost.get("exact", SIZE))
    assert counts.tolist() == [[100] * L]


def test_samples_of_a_mixed_chain_pay_for_their_own():
    names, groups = ("divprune", "fastv", "cdpruner+sparsevlm"), (2, 0, 1, 0)
    mixed, price = MixedChain.of_chains([Chain.of(name) for name in names]), cost.get("exact", SIZE)
    counts = torch.tensor([[80, 40, 40, 30, 30, 20, 20, 20]] * 4)
    counts[2] = torch.tensor([100, 60, 60, 60, 30, 30, 30, 30])
    load = workload_under(mixed, SIZE, [9] * 4, [100] * 4, groups=groups)
    for row, group in enumerate(groups):
        own = workload_under(Chain.of(names[group]), SIZE, 9, 100)
        assert int(price.bill(counts, load)[row]) == int(price.bill(counts[row], own))


def test_time_pays_for_scoring_at_the_speed_of_the_layers():
    times = Measured(SIZE, tokens=(1, 400), layer_ms=(1.0, 5.0), drop_ms=0.25)
    counts = torch.tensor([100, 100, 50, 50, 50, 50, 50, 50])
    free, paid = (workload_under(Chain.of(name), SIZE, 10, 100) for name in ("random", "fitprune(site=entry)"))
    flops = scoring_flops("fitprune(site=entry)", SIZE, counts.tolist(), 10, 10)
    rate = 5.0 * L / float(cost.get("exact", SIZE).full(Workload(0, 400)))
    assert float(times.bill(counts, free)) == pytest.approx(float(times.price(counts, free)) + 0.25)
    assert float(times.bill(counts, paid)) == pytest.approx(float(times.bill(counts, free)) + flops * rate)


def test_bytes_do_not_depend_on_who_chooses():
    counts, held = torch.tensor([[60] * L]), cost.get("kv-bytes", SIZE)
    loads = [workload_under(Chain.of(name), SIZE, [10], [100]) for name in ("random", "aim")]
    assert int(held.bill(counts, loads[0])) == int(held.bill(counts, loads[1])) == int(held.price(counts, loads[0]))


def test_the_floor_names_what_it_is_made_of():
    load = workload_under(Chain.of("fastv"), SIZE, [10], [100], num_read=[4])
    with pytest.warns(
        BudgetWarning, match="first layer, the visual tokens whose output is read and the choice itself cost"
    ):
        counts = cost.snap(torch.full((L,), 0.5), torch.tensor([0.01]), load, cost.get("exact", SIZE))
    assert counts.tolist() == [[100, *[4] * (L - 1)]]


def test_pricing_of_a_part_is_that_of_the_whole():
    load = workload_under(Chain.of("fitprune"), SIZE, [10, 20, 30], [100, 90, 0], num_read=[0, 2, 0])
    price = cost.get("exact", SIZE)
    counts = np.array([[100, 50, 50, 20, 20, 20, 5, 5], [90, 90, 40, 40, 40, 9, 9, 9], [0] * 8])
    whole = HostPricing(price, load).bill(counts)
    for row in range(3):
        one = load.each(lambda numbers, row=row: numbers[row : row + 1])
        assert HostPricing(price, one).bill(counts[row : row + 1])[0] == whole[row]
