"""What holds for every cost in the registry: it never falls, a batch is its rows, and the host computes what torch does."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from vispco import cost
from vispco.cost import COSTS, Dimensions, Workload
from vispco.cost.host import HostPricing

L = 5
SIZE = Dimensions(
    num_layers=L, hidden=40, heads=4, kv_heads=2, head_dim=10, ffn=72, gated=True,
    windows=(None, 20, None, 30, None), vocab=9, dtype_bytes=2,
)  # fmt: skip
OPTIONS = {  # of costs that cannot be made without any
    "measured": {"tokens": (8, 32, 33, 64, 200), "layer_ms": (1.0, 1.0, 2.0, 2.5, 9.0), "fixed_ms": 3.0},
}
LAW = settings(max_examples=25, deadline=None)
names = pytest.mark.parametrize("name", sorted(COSTS))
sites = st.sampled_from(["entry", "mid", ("entry", "entry", "mid", "entry", "mid")])
rows = st.lists(
    st.tuples(st.lists(st.integers(0, 90), min_size=L, max_size=L), st.integers(0, 40), st.integers(0, 60)),
    min_size=1,
    max_size=3,
)


def made(name, size=SIZE):
    return COSTS.get(name)(size, **OPTIONS.get(name, {}))


def sized(drawn, site):
    """(counts [B, L] that never grow and never exceed what there is, workload) of drawn rows."""
    counts = [np.minimum.accumulate(np.minimum(row, visual)).tolist() for row, _, visual in drawn]
    _, text, visual = (list(column) for column in zip(*drawn, strict=True))
    return torch.tensor(counts), Workload(text, visual, site)


@names
@LAW
@given(rows, sites, st.integers(0, L - 1))
def test_the_price_never_falls_when_a_count_grows(name, drawn, site, layer):
    priced, (counts, workload) = made(name), sized(drawn, site)
    more = counts.clone()
    more[:, : layer + 1] = (more[:, : layer + 1] + 1).minimum(workload.num_visual[:, None])
    low, high = priced.price(counts, workload), priced.price(more, workload)
    assert bool((high >= low).all())
    assert bool((low >= priced.floor(Workload(workload.num_text, workload.num_visual, site, 0))).all())
    assert bool((low <= priced.full(workload)).all())
    assert priced.fraction_of_counts(workload.full(L), workload).tolist() == [
        1.0 if whole else 0.0 for whole in priced.full(workload).tolist()
    ]
    longer = Workload(workload.num_text + 1, workload.num_visual, site)
    assert bool((priced.price(counts, longer) >= low).all())


@names
@LAW
@given(rows, sites)
def test_a_batch_is_its_rows_and_the_host_computes_what_torch_does(name, drawn, site):
    priced, (counts, workload) = made(name), sized(drawn, site)
    prices = priced.price(counts, workload)
    for row, (text, visual) in enumerate(zip(workload.num_text, workload.num_visual, strict=True)):
        assert float(priced.price(counts[row], Workload(text, visual, site))) == float(prices[row])
    twice = workload.repeat(2)
    assert priced.price(counts.repeat(2, 1), twice).tolist() == prices.tolist() * 2
    assert twice.num_visual.tolist() == workload.num_visual.tolist() * 2
    host = HostPricing(priced, workload)
    assert host.price(counts.numpy()).tolist() == prices.tolist()
    assert host.full.tolist() == priced.full(workload).tolist()
    assert host.lowest.tolist() == pytest.approx(priced.lowest_fraction(workload).tolist(), rel=1e-15)
    share = counts.double() / workload.num_visual.clamp_min(1)[:, None]
    exact = priced.relaxed(share, workload)
    assert exact.tolist() == pytest.approx(prices.tolist(), rel=1e-12)
    assert host.relaxed(share.numpy()).tolist() == pytest.approx(exact.tolist(), rel=1e-12)


@names
def test_it_is_saved_as_data_and_made_for_a_config(name, real_config):
    priced = made(name)
    assert cost.from_dict(json.loads(json.dumps(priced.to_dict()))) == priced
    assert cost.from_dict({**priced.to_dict(), "from the future": 1}) == priced
    real = made(name, Dimensions.from_config(real_config))
    assert int(real.full(Workload(64, 576))) > int(real.floor(Workload(64, 576))) > 0
    if name not in OPTIONS:
        assert cost.get(name, real_config) == real
