"""FLOPs and KV bytes against a naive loop over layers, and the laws that a search relies on."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import AutoModel, DynamicCache, Gemma3TextConfig

from vispco import cost
from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.cost import Dimensions, Exact, KvBytes, Paper, Workload

LAW = settings(max_examples=40, deadline=None)
SMALL = Dimensions(
    num_layers=5,
    hidden=24,
    heads=4,
    kv_heads=2,
    head_dim=8,
    ffn=56,
    gated=True,
    windows=(None, 7, 7, None, 3),
    vocab=9,
    dtype_bytes=2,
)
PLAIN = Dimensions(
    num_layers=5,
    hidden=24,
    heads=4,
    kv_heads=4,
    head_dim=6,
    ffn=96,
    gated=False,
    windows=(None,) * 5,
    vocab=9,
    dtype_bytes=4,
)
curves = st.lists(st.floats(0, 1), min_size=5, max_size=5).map(lambda r: sorted(r, reverse=True))
sizes, names = st.sampled_from([SMALL, PLAIN]), st.sampled_from(["exact", "paper"])
mixed = st.lists(st.sampled_from(["entry", "mid"]), min_size=5, max_size=5).map(tuple)
sites = st.one_of(st.sampled_from(["entry", "mid"]), mixed)


def layer_parts(name, size, N, M):
    """Attention on N tokens and feed-forward network on M, matrix by matrix."""
    if name == "paper":
        return 8 * N * size.hidden**2 + 4 * N * N * size.hidden + 16 * M * size.hidden**2
    query, key = size.heads * size.head_dim, size.kv_heads * size.head_dim
    projections = 2 * N * size.hidden * (query + key + key) + 2 * N * query * size.hidden
    matrices = 3 if size.gated else 2
    return projections + 2 * 2 * N * N * query + matrices * 2 * M * size.hidden * size.ffn


def naive(name, size, kept, text, site):
    N = [text + c for c in kept]
    site = (site,) * len(N) if isinstance(site, str) else site
    M = [N[i + 1] if i + 1 < len(N) and site[i + 1] == "mid" else N[i] for i in range(len(N))]
    return sum(layer_parts(name, size, n, m) for n, m in zip(N, M, strict=True))


@LAW
@given(names, sizes, sites, st.lists(curves, min_size=1, max_size=3), st.integers(0, 50), st.integers(0, 400))
def test_flops_equal_a_loop_over_layers(name, size, site, rows, text, visual):
    model = cost.get(name, size)
    numbers = (
        torch.tensor([text + b for b in range(len(rows))]),
        torch.tensor([visual + 3 * b for b in range(len(rows))]),
    )
    workload = Workload(*numbers, site)
    flops = model.relaxed(torch.tensor(rows, dtype=torch.float64), workload)
    counts = torch.tensor([[int(r * (visual + 3 * b)) for r in row] for b, row in enumerate(rows)])
    whole = model.price(counts, workload)
    assert flops.dtype == torch.float64
    assert whole.dtype == torch.int64
    for b, row in enumerate(rows):
        expected = naive(name, size, [r * (visual + 3 * b) for r in row], text + b, site)
        assert float(flops[b]) == pytest.approx(expected, rel=1e-12)
        assert int(whole[b]) == naive(name, size, counts[b].tolist(), text + b, site)
    assert model.full(workload).tolist() == [
        naive(name, size, [visual + 3 * b] * 5, text + b, "entry") for b in range(len(rows))
    ]
    floors = model.floor(workload)
    assert floors.tolist() == [
        naive(name, size, [visual + 3 * b, 0, 0, 0, 0], text + b, site) for b in range(len(rows))
    ]
    assert bool((model.floor(Workload(*numbers, site, 0)) <= floors).all())
    deeper = model.floor(Workload(*numbers, site, 3))
    assert deeper.tolist() == [
        naive(name, size, [visual + 3 * b] * 3 + [0, 0], text + b, site) for b in range(len(rows))
    ]
    assert bool((floors <= model.full(workload)).all())


@LAW
@given(names, sites, curves, st.integers(1, 20), st.integers(1, 60))
def test_gradient_is_right_and_more_tokens_never_cost_less(name, site, curve, text, visual):
    model, workload = cost.get(name, SMALL), Workload(text, visual, site)
    retention = torch.tensor(curve, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda r: model.fraction(r, workload), retention)
    (gradient,) = torch.autograd.grad(model.relaxed(retention, workload), retention)
    assert bool((gradient > 0).all())
    assert model.floor(Workload(text + 1, visual, site)) > model.floor(workload)
    assert model.floor(Workload(text, visual + 1, site)) > model.floor(workload)
    everything = model.fraction(torch.ones(5), workload)
    assert float(everything) == pytest.approx(1.0, abs=1e-15)


def test_low_precision_retention_is_counted_in_float64():
    retention = torch.full((5,), 0.5, dtype=torch.bfloat16, requires_grad=True)
    workload = Workload(10**6, 10**7)
    flops = Exact(SMALL).relaxed(retention, workload)
    assert flops.dtype == torch.float64
    assert int(flops) == int(Exact(SMALL).price(torch.full((5,), 5 * 10**6), workload))


def test_the_papers_formula_against_the_true_figure(real_configs):
    """The ratios that the design states are those of a whole prefill of about 576 visual and 96 text tokens."""
    for name, whole, linear in (
        ("qwen2.5-vl-3b", 0.665, 0.653),
        ("gemma3-4b", 0.845, 0.833),
        ("llava-1.5-7b", 0.995, 0.995),
    ):
        size = Dimensions.from_config(real_configs[name])
        exact, paper = Exact(size), Paper(size)
        assert round(float(paper.full(Workload(96, 576)) / exact.full(Workload(96, 576))), 3) == whole
        per_token = (paper.layer_flops[0] + paper.layer_flops[2]) / (exact.layer_flops[0] + exact.layer_flops[2])
        assert round(per_token, 3) == linear


@LAW
@given(curves, st.integers(0, 30), st.integers(0, 30), st.integers(0, 20))
def test_kv_bytes_equal_a_loop_over_layers(curve, text, visual, generated):
    counts = [int(r * visual) for r in curve]
    expected = 0
    for c, window in zip(counts, SMALL.windows, strict=True):
        entries = text + c + generated
        expected += 2 * SMALL.kv_heads * SMALL.head_dim * SMALL.dtype_bytes * min(entries, (window or 10**9) - 1)
    cache, workload = KvBytes(SMALL, generated=generated), Workload(text, visual)
    assert int(cache.price(torch.tensor(counts), workload)) == expected
    relaxed = cache.relaxed(torch.tensor(counts, dtype=torch.float64) / max(visual, 1), workload)
    assert float(relaxed) == pytest.approx(expected, rel=1e-12)


def test_kv_bytes_are_those_of_the_cache():
    config = Gemma3TextConfig(
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        intermediate_size=48,
        vocab_size=64,
        sliding_window=6,
        layer_types=["sliding_attention", "full_attention", "sliding_attention"],
    )
    model, cache = AutoModel.from_config(config).eval(), DynamicCache(config=config)
    size = Dimensions.from_config(config)
    with torch.no_grad():
        for step, length in enumerate((4, 9, 1, 1)):
            model(input_ids=torch.ones(1, length, dtype=torch.long), past_key_values=cache)
            stored = sum(t.numel() * t.element_size() for layer in cache.layers for t in (layer.keys, layer.values))
            seen = (4, 13, 14, 15)[step]
            assert (
                int(KvBytes(size, generated=seen - 4).price(torch.zeros(3, dtype=torch.long), Workload(4, 0))) == stored
            )


def test_mistakes_are_named():
    model = cost.get("exact", SMALL)
    with pytest.raises(InvalidInputError, match="5 layers"):
        model.relaxed(torch.ones(4), Workload(1, 1))
    with pytest.raises(InvalidInputError, match='"entry"'):
        Workload(1, 1, "exit")
    with pytest.raises(InvalidInputError, match="2 sites were given for 5 layers"):
        model.full(Workload(1, 1, ("entry", "mid")))
    with pytest.raises(InvalidInputError, match="integers"):
        Workload(1, 2.5)
    with pytest.raises(InvalidInputError, match="counted from 0"):
        Workload(1, 1, earliest_layer=-1)
    with pytest.raises(UnknownNameError, match="exact, kv-bytes, measured, paper"):
        cost.get("guess", SMALL)


def test_what_is_no_cost_is_refused():
    with pytest.raises(InvalidInputError, match='no "name"'):
        cost.from_dict({"dimensions": SMALL.to_dict()})
    with pytest.raises(InvalidInputError, match="without num_layers, hidden"):
        cost.from_dict({"name": "exact"})
