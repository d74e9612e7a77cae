"""The predictor network (small, blind to padding, saved and loaded) and the kernel regression of the joint predictor."""

import warnings
from dataclasses import asdict

import pytest
import torch

import tiny
from vispco import kernels, scorers
from vispco.cost import BudgetWarning, Dimensions, Workload
from vispco.pruner.kernel_regression import KernelRegression, kernel_weights
from vispco.pruner.observation import Observation, feature_scales, join_observations, raw_features, scaled_features
from vispco.pruner.predictor import Predictor, PredictorConfig
from vispco.search.initial_shapes import initial_shapes
from vispco.search.joint.anchor_selection import greedy_anchors
from vispco.search.shape_pool import measure_shapes

QWEN_3B = Dimensions(
    num_layers=36, hidden=2048, heads=16, kv_heads=2, head_dim=128, ffn=11008, gated=True,
    windows=(None,) * 36, vocab=151936, dtype_bytes=2,
)  # fmt: skip


def made(kernel="steps", **options):
    torch.manual_seed(0)
    model = tiny.build("qwen2_5_vl")
    options = {"width": 16, "queries": 2, **options}
    return Predictor.for_model(model, kernels.get(kernel), scorers.get("fastv"), **options).eval()


@pytest.mark.parametrize("kernel", sorted(kernels.KERNELS))
def test_it_is_small_and_cheap_at_full_size(kernel):
    config = PredictorConfig(hidden=2048, kernel={"name": kernel}, dimensions=asdict(QWEN_3B))
    predictor = Predictor(config)
    prefill = float(config.make_cost().full(Workload(96, 576)))
    assert predictor.num_parameters() <= 5e6
    assert predictor.flops(96) < 0.01 * prefill


def test_it_gives_every_sample_the_kernels_parameters(batches):
    predictor = made()
    found = predictor(batches[0].observation, torch.tensor([0.3, 0.5, 0.9]))
    assert found.shape == (3, predictor.kernel.num_parameters(tiny.LAYERS))


def test_a_saved_predictor_is_the_same_predictor(batches, tmp_path):
    predictor = made()
    torch.nn.init.normal_(predictor.offset.weight)
    predictor.save_pretrained(tmp_path)
    again = Predictor.from_pretrained(tmp_path).eval()
    budget = torch.tensor([0.3, 0.5, 0.9])
    assert (tmp_path / "model.safetensors").is_file()
    weights, loaded = predictor.state_dict(), again.state_dict()
    assert all(torch.equal(weights[name], loaded[name]) for name in weights)
    assert torch.allclose(predictor(batches[0].observation, budget), again(batches[0].observation, budget), atol=1e-5)
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
    assert torch.allclose(predictor(seen, budget), predictor(wider, budget), atol=1e-5)
    joined = join_observations([seen, wider])
    assert len(joined) == 6


def test_the_budget_and_the_instruction_matter(batches):
    predictor, seen = made(), batches[0].observation
    torch.nn.init.normal_(predictor.offset.weight)
    base = predictor(seen, torch.full((3,), 0.5))
    other = Observation(seen.visual, seen.text.roll(1, 0), seen.present.roll(1, 0), seen.sizes)
    assert not torch.allclose(base, predictor(seen, torch.full((3,), 0.9)))
    assert not torch.allclose(base, predictor(other, torch.full((3,), 0.5)))


def test_a_floor_is_not_told_for_budgets_that_nobody_asked_for(batches, objective):
    kernel = kernels.get("single")
    params = initial_shapes(kernel, tiny.LAYERS)[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tried = measure_shapes(objective, batches[0], kernel, params, 0.0, warn=False)
    with pytest.warns(BudgetWarning):
        assert torch.equal(tried, measure_shapes(objective, batches[0], kernel, params, 0.0))


def test_anchors_serve_better_together_than_the_best_alone():
    torch.manual_seed(0)
    measured = torch.rand(50, 12)
    chosen = greedy_anchors(measured, measured, 3)  # every row knows itself
    assert len(set(chosen)) == 3
    assert chosen[0] == int(measured.mean(0).argmin())
    together = measured[:, chosen].min(-1).values.mean()
    assert together < measured.mean(0).min()
    pairs = [measured[:, [i, j]].min(-1).values.mean() for i in range(12) for j in range(i)]
    assert measured[:, chosen[:2]].min(-1).values.mean() <= min(pairs) * 1.05


def test_like_instructions_speak_for_each_other_and_none_for_itself():
    words = torch.eye(4)[[0, 0, 1, 1]][:, None]
    seen = Observation(torch.zeros(4, 8), words, torch.ones(4, 1, dtype=torch.bool), torch.ones(4, 2))
    raw = raw_features(seen)
    points = scaled_features(raw, *feature_scales(raw))
    weights = kernel_weights(points, points, 0.15, leave_one_out=True)
    assert weights.diagonal().tolist() == [0.0] * 4
    assert weights[0, 1] > 0.99
    assert weights[2, 3] > 0.99


def questions(N=400, D=32, K=3):
    """Samples of which one word of the question says which of K configurations is good: loss 0.1 for it, 1 to 2 for others."""
    torch.manual_seed(0)
    kind = torch.randint(0, K, (N,))
    words = torch.randn(K, D)
    text = torch.randn(N, 6, D) * 0.3
    text[torch.arange(N), torch.randint(0, 6, (N,))] += 3 * words[kind]
    seen = Observation(torch.randn(N, 2 * D), text, torch.ones(N, 6, dtype=torch.bool), torch.full((N, 2), 20))
    loss = torch.rand(N, K) + 1.0
    loss[torch.arange(N), kind] = 0.1
    return seen, loss


def test_a_kernel_regression_is_the_weighted_mean_over_samples_and_knows_what_a_question_needs():
    seen, loss = questions()
    known, new = torch.arange(300), torch.arange(300, 400)
    bandwidth = torch.tensor([0.15, 0.15, 0.3])
    regression = KernelRegression(32, 300, 3, axes=97)  # all components
    regression.fit(seen.take(known), loss[known], bandwidth)
    found = regression.estimate(seen.take(new))
    raw = raw_features(seen.take(known))
    scales = feature_scales(raw)
    keys, points = scaled_features(raw, *scales), scaled_features(raw_features(seen.take(new)), *scales)
    for row, point in enumerate(points):
        for column, width in enumerate(bandwidth):
            weight = (-(keys - point).square().sum(-1) / (2 * width)).exp()
            expected = float((weight * loss[known, column]).sum() / weight.sum())
            assert float(found[row, column]) == pytest.approx(expected, abs=1e-3)
    chosen = loss[new].gather(1, found.argmin(-1, keepdim=True)).mean()
    assert chosen < 0.4 < float(loss[new].mean(0).min())
    itself = regression.estimate()
    left_out = kernel_weights(keys, keys, 0.15, leave_one_out=True) @ loss[known]
    torch.testing.assert_close(itself[:, 0], left_out[:, 0], rtol=1e-3, atol=1e-3)


def test_fewer_components_than_features_estimate_nearly_the_same():
    seen, loss = questions()
    whole, some = (KernelRegression(32, 400, 3, axes=axes) for axes in (97, 64))
    for regression in (whole, some):
        regression.fit(seen, loss, torch.full((3,), 0.15))
    assert (whole.estimate(seen).argmin(-1) == some.estimate(seen).argmin(-1)).float().mean() > 0.95
