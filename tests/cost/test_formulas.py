"""Counts for a budget are what the written-out formulas for FLOPs give, to the token."""

import math
import warnings

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cost.formulas import Formulas
from vispco import cost, kernels
from vispco.cost import BudgetWarning, Dimensions, Exact, Workload
from vispco.cost.cost import Cost
from vispco.cost.host import HostPricing

L = 6
SIZE = Dimensions(
    num_layers=L, hidden=40, heads=4, kv_heads=2, head_dim=10, ffn=72, gated=True,
    windows=(None,) * L, vocab=9, dtype_bytes=2,
)  # fmt: skip


class SearchedExact(Exact):
    """Exact FLOPs without the closed form of how many tokens may be added."""

    host_most = Cost.host_most


SEARCHED = SearchedExact(SIZE)
samples = st.lists(st.tuples(st.floats(0, 1), st.integers(1, 40), st.integers(0, 150)), min_size=1, max_size=40)


@pytest.mark.parametrize("kernel", sorted(kernels.KERNELS))
@settings(max_examples=8, deadline=None)
@given(st.data(), samples, st.sampled_from(["exact", "paper"]), st.sampled_from(["entry", "mid"]), st.booleans())
def test_counts_are_those_of_the_formulas(kernel, data, rows, name, site, fill):
    earliest = data.draw(st.integers(0, 1))
    kernel = kernels.get(kernel, earliest_layer=earliest)
    budget, text, visual = (torch.tensor(column) for column in zip(*rows, strict=True))
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 10**6)))
    params = 2 * torch.randn(len(rows), kernel.num_parameters(L), generator=generator, dtype=torch.float64)
    gamma = math.inf if kernel.annealable else None
    expected = Formulas(SIZE, name, text, visual, site, bool(earliest)).counts(
        kernel, params, budget.double(), gamma, fill=fill
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        found = cost.counts_for_budget(
            kernel,
            params,
            budget.double(),
            Workload(text, visual, site, earliest),
            cost.get(name, SIZE),
            gamma=gamma,
            fill=fill,
        )
    assert torch.equal(found, expected)


@settings(max_examples=40, deadline=None)
@given(samples, st.sampled_from(["entry", "mid"]), st.sampled_from([1, 7, 10**9]), st.integers(0, 10**6))
def test_filling_by_search_and_by_the_closed_form_agree(rows, site, most, seed):
    budget, text, visual = (torch.tensor(column) for column in zip(*rows, strict=True))
    workload, exact = Workload(text, visual, site), cost.get("exact", SIZE)
    budget = torch.maximum(budget.double(), exact.lowest_fraction(workload))
    share = torch.rand(len(rows), generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    counts = cost.snap(share[:, None] * torch.ones(L), budget, workload, exact, fill=False)
    filled = [HostPricing(each, workload).fill(counts.numpy(), budget.numpy(), most) for each in (exact, SEARCHED)]
    assert filled[0].tolist() == filled[1].tolist()
