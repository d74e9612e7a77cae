"""The predictor and its table: small, blind to padding and answers, saved and loaded, better than one shape for all."""

from dataclasses import asdict

import pytest
import torch

import tiny
from vispco import kernels, scorers
from vispco.cost import Dimensions
from vispco.search.halving import kl_of
from vispco.search.observation import Observation, join
from vispco.search.predictor import Predictor, PredictorConfig
from vispco.search.shapes import shapes
from vispco.search.table import Fit, Table, choose_anchors, chosen_kl, drawn_budgets, fit, tabulate
from vispco.search.teach import Lesson, scouted

QWEN_3B = Dimensions(
    num_layers=36, hidden=2048, heads=16, kv_heads=2, head_dim=128, ffn=11008, gated=True,
    windows=(None,) * 36, vocab=151936, dtype_bytes=2,
)  # fmt: skip


def made(kernel="steps", anchors=3, **options):
    torch.manual_seed(0)
    model = tiny.build("qwen2_5_vl")
    options = {"width": 16, "queries": 2, **options}
    return Predictor.for_model(model, kernels.get(kernel), scorers.get("fastv"), anchors=anchors, **options).eval()


@pytest.mark.parametrize("kernel", sorted(kernels.KERNELS))
def test_it_is_small_and_cheap_at_full_size(kernel):
    config = PredictorConfig(hidden=2048, anchors=16, kernel={"name": kernel}, dimensions=asdict(QWEN_3B))
    predictor = Predictor(config)
    prefill = float(config.make_cost().full(96, 576))
    assert predictor.num_parameters() <= 5e6
    assert predictor.flops(96) < 0.01 * prefill


def test_it_gives_every_sample_the_kernels_parameters(batches):
    predictor = made()
    found = predictor(batches[0].observation, torch.tensor([0.3, 0.5, 0.9]))
    assert found.params.shape == (3, predictor.kernel.num_parameters(tiny.LAYERS))
    assert found.logits.shape == (3, 3)


def test_a_saved_predictor_is_the_same_predictor(batches, tmp_path):
    predictor = made()
    torch.nn.init.normal_(predictor.offset.weight)
    predictor.save_pretrained(tmp_path)
    again = Predictor.from_pretrained(tmp_path).eval()
    budget = torch.tensor([0.3, 0.5, 0.9])
    assert (tmp_path / "model.safetensors").is_file()
    weights, loaded = predictor.state_dict(), again.state_dict()
    assert all(torch.equal(weights[name], loaded[name]) for name in weights)
    assert torch.allclose(
        predictor(batches[0].observation, budget).params, again(batches[0].observation, budget).params, atol=1e-5
    )
    assert again.kernel == predictor.kernel
    assert again.config.make_cost() == predictor.config.make_cost()


def test_padding_changes_nothing(batches):
    predictor, seen = made(), batches[0].observation
    torch.nn.init.normal_(predictor.offset.weight)
    wider = Observation(
        seen.visual,
        torch.cat([seen.text, torch.randn_like(seen.text)], dim=1),
        torch.cat([seen.present, torch.zeros_like(seen.present)], dim=1),
        seen.sizes,
    )
    budget = torch.full((3,), 0.5)
    assert torch.allclose(predictor(seen, budget).params, predictor(wider, budget).params, atol=1e-5)
    joined = join([seen, wider])
    assert len(joined) == 6


def test_the_budget_and_the_instruction_matter(batches):
    predictor, seen = made(), batches[0].observation
    torch.nn.init.normal_(predictor.offset.weight)
    base = predictor(seen, torch.full((3,), 0.5)).params
    other = Observation(seen.visual, seen.text.roll(1, 0), seen.present.roll(1, 0), seen.sizes)
    assert not torch.allclose(base, predictor(seen, torch.full((3,), 0.9)).params)
    assert not torch.allclose(base, predictor(other, torch.full((3,), 0.5)).params)


def test_budgets_are_spread_evenly():
    found = drawn_budgets(100, 0.2, 1.0)
    assert torch.histc(found, 10, 0.2, 1.0).tolist() == pytest.approx([10] * 10, abs=1)


def test_a_table_holds_the_measured_divergence_of_each_anchor(batches, objective):
    kernel = kernels.get("single")
    anchors = shapes(kernel, tiny.LAYERS)
    budgets = torch.tensor([[0.5], [0.8]], dtype=torch.float64)
    table = tabulate(objective, batches, kernel, anchors, budgets)
    assert table.kl.shape == (6, 3)
    assert torch.allclose(table.kl[:3].T, kl_of(objective, batches[0], kernel, anchors, 0.5))
    assert table.budget.tolist() == [0.5] * 3 + [0.8] * 3
    assert table.oracle <= table.best_static


def test_anchors_serve_better_together_than_the_best_alone():
    torch.manual_seed(0)
    measured = torch.rand(12, 50)
    chosen = choose_anchors(measured, 3)
    assert len(set(chosen)) == 3
    assert chosen[0] == int(measured.mean(-1).argmin())
    together = measured[chosen].min(0).values.mean()
    assert together < measured.mean(-1).min()
    pairs = [measured[[i, j]].min(0).values.mean() for i in range(12) for j in range(i)]
    assert measured[chosen[:2]].min(0).values.mean() <= min(pairs) * 1.05


def test_scouting_brings_different_shapes(batches, objective):
    lesson = Lesson(anchors=3, scouts=3, shortlist=2, scouting=(0.5, 0.7))
    found = scouted(objective, batches, kernels.get("steps", steps=2), lesson)
    assert len(found.unique(dim=0)) == 3


def test_it_learns_which_shape_a_question_needs():
    torch.manual_seed(0)
    N, D, K = 400, 32, 3
    kind = torch.randint(0, K, (N,))
    words = torch.randn(K, D)
    text = torch.randn(N, 6, D) * 0.3
    text[torch.arange(N), torch.randint(0, 6, (N,))] += 3 * words[kind]
    seen = Observation(torch.randn(N, 2 * D), text, torch.ones(N, 6, dtype=torch.bool), torch.full((N, 2), 20))
    kl = torch.rand(N, K) + 1.0
    kl[torch.arange(N), kind] = 0.1
    table = Table(seen, torch.rand(N) * 0.5 + 0.4, kl)
    predictor = made(anchors=K)
    anchors = torch.randn(K, predictor.anchors.shape[1])
    found = fit(predictor, table, anchors, Fit(epochs=25, rows=64, rate=3e-3))
    assert found.oracle == pytest.approx(0.1)
    assert found.predictor < found.static - 0.6 * (found.static - found.oracle)
    assert chosen_kl(predictor, table) < 0.4
    assert torch.equal(predictor.anchors, anchors)
