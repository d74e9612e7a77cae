"""The predictor and its table: small, blind to padding and answers, saved and loaded, better than one shape for all."""

import warnings
from dataclasses import asdict, replace

import pytest
import torch

import tiny
from vispco import kernels, scorers
from vispco.core.errors import UnknownNameError
from vispco.cost import BudgetWarning, Dimensions, Workload
from vispco.pruner.observation import Observation, join_observations
from vispco.pruner.predictor import Predictor, PredictorConfig
from vispco.pruner.sample_features import feature_scales, leave_one_out_weights, raw_features, scaled_features
from vispco.search.shapes.halving import measure_shapes, measure_shapes_quietly
from vispco.search.shapes.initial import initial_shapes
from vispco.search.table.kl_table import Anchors, KlTable, measure_table, spread_budgets
from vispco.search.table.memory_fit import choose_anchors, greedy_anchors
from vispco.search.table.network_fit import FitSettings, chosen_kl, fit_network
from vispco.search.table.scouting import ScoutingSettings, scout_anchors
from vispco.search.table.table_predictor import fit_predictor, scout_and_measure

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
    prefill = float(config.make_cost().full(Workload(96, 576)))
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
    joined = join_observations([seen, wider])
    assert len(joined) == 6


def test_the_budget_and_the_instruction_matter(batches):
    predictor, seen = made(), batches[0].observation
    torch.nn.init.normal_(predictor.offset.weight)
    base = predictor(seen, torch.full((3,), 0.5)).params
    other = Observation(seen.visual, seen.text.roll(1, 0), seen.present.roll(1, 0), seen.sizes)
    assert not torch.allclose(base, predictor(seen, torch.full((3,), 0.9)).params)
    assert not torch.allclose(base, predictor(other, torch.full((3,), 0.5)).params)


def test_budgets_are_spread_evenly_over_each_range():
    found = spread_budgets(100, [(0.2, 0.4), (0.4, 1.0)])
    assert torch.histc(found, 5, 0.2, 0.4)[:4].tolist() == pytest.approx([10] * 4, abs=1)
    assert torch.histc(found[1::2], 5, 0.4, 1.0).tolist() == pytest.approx([10] * 5, abs=1)


def test_a_table_holds_the_measured_divergence_of_each_anchor(batches, objective):
    kernel = kernels.get("single")
    anchors = initial_shapes(kernel, tiny.LAYERS)
    budgets = torch.tensor([[0.5], [0.8]], dtype=torch.float64)
    table = measure_table(objective, batches, kernel, Anchors.for_all_budgets(anchors), budgets)
    assert table.kl.shape == (6, 3)
    assert torch.allclose(table.kl[:3].T, measure_shapes(objective, batches[0], kernel, anchors, 0.5))
    assert table.budget.tolist() == [0.5] * 3 + [0.8] * 3
    assert table.oracle <= table.best_static


def test_a_floor_is_not_told_for_budgets_that_nobody_asked_for(batches, objective):
    kernel = kernels.get("single")
    params = initial_shapes(kernel, tiny.LAYERS)[:1]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        tried = measure_shapes_quietly(objective, batches[0], kernel, params, 0.0)
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


def test_each_budget_has_anchors_of_its_own_and_what_was_seen_of_them_is_kept(batches, objective):
    kernel = kernels.get("steps", steps=2)
    scouting = ScoutingSettings(anchors=2, scouts=3, shortlist=3, explore=6, budgets=(0.5, 0.7))
    found, seen = scout_anchors(objective, batches, kernel, scouting)
    reach = found.budget_range
    assert len(found) == 4
    assert all(len(part.unique(dim=0)) == 2 for part in found.params.split(2))
    assert reach[:, 0].tolist() == pytest.approx([-1.0, -1.0, 0.6, 0.6])
    assert reach[:, 1].tolist() == pytest.approx([0.6, 0.6, 2.0, 2.0])
    samples = sum(map(len, batches))
    assert seen.kl.shape == (2 * samples, 4)
    assert seen.kl.isinf().sum(-1).tolist() == [2] * (2 * samples)
    own = measure_shapes(objective, batches[0], kernel, found.params[2:], 0.7)
    assert torch.allclose(seen.kl[samples : samples + len(batches[0]), 2:].T, own)


def test_the_work_that_is_told_adds_up_to_what_was_foreseen(batches, objective):
    scouting = ScoutingSettings(anchors=2, scouts=1, shortlist=4, explore=6, budgets=(0.5, 0.7))
    told = []
    many = [*batches] * 7  # 14: two of them are behind the last look
    scout_and_measure(
        objective, many, kernels.get("steps", steps=2), scouting, lambda work, what: told.append((work, what))
    )
    assert sum(work for work, _ in told) == pytest.approx(scouting.num_passes(many), rel=0.15)
    assert {"budget 0.5: 6 shapes", "budget 0.7: 6 shapes", f"table: {sum(map(len, many))} samples"} <= {
        w for _, w in told
    }


def test_an_anchor_is_chosen_and_measured_only_within_its_reach(batches, objective):
    predictor, kernel = made(anchors=3), kernels.get("single")
    predictor.budget_range.copy_(torch.tensor([[-1.0, 0.4], [0.4, 0.6], [0.4, 2.0]]))
    for budget, allowed in ((0.3, {0}), (0.5, {1, 2}), (0.8, {2})):
        logits = predictor(batches[0].observation, torch.full((len(batches[0]),), budget)).logits.detach()
        assert set(logits.argmax(-1).tolist()) <= allowed
        assert float(logits.softmax(-1)[:, sorted(allowed)].sum(-1).min()) == pytest.approx(1.0)
    anchors, budgets = initial_shapes(kernel, tiny.LAYERS), torch.tensor([[0.5], [0.8]], dtype=torch.float64)
    table = measure_table(objective, batches, kernel, Anchors(anchors, predictor.budget_range), budgets)
    assert table.kl.isfinite().tolist() == [[False, True, True]] * 3 + [[False, False, True]] * 3
    assert table.best_static_anchor.tolist()[3:] == [2, 2, 2]
    assert bool((table.normalised.kl[3:, 2].mean() <= 5.0) & table.normalised.kl[:, 0].isinf().all())


def test_a_sample_is_held_out_at_all_of_its_budgets():
    seen = Observation(torch.zeros(9, 4), torch.zeros(9, 1, 2), torch.ones(9, 1, dtype=torch.bool), torch.ones(9, 2))
    table = KlTable(seen, torch.rand(9), torch.rand(9, 2), torch.tensor([0, 1, 2, 0, 1, 2, 0, 1, 2]))
    learned, away = table.split(0.3, torch.Generator().manual_seed(0))
    assert len(table.sample[away].unique()) == 1
    assert len(away) == 3
    assert not set(table.sample[away].tolist()) & set(table.sample[learned].tolist())


def test_like_instructions_speak_for_each_other_and_none_for_itself():
    words = torch.eye(4)[[0, 0, 1, 1]][:, None]
    seen = Observation(torch.zeros(4, 8), words, torch.ones(4, 1, dtype=torch.bool), torch.ones(4, 2))
    weights = leave_one_out_weights(seen)
    assert weights.diagonal().tolist() == [0.0] * 4
    assert weights[0, 1] > 0.99
    assert weights[2, 3] > 0.99


def questions(N=400, D=32, K=3):
    """A table in which one word of the question says which of K anchors is good: 0.1 for it, 1 to 2 for others."""
    torch.manual_seed(0)
    kind = torch.randint(0, K, (N,))
    words = torch.randn(K, D)
    text = torch.randn(N, 6, D) * 0.3
    text[torch.arange(N), torch.randint(0, 6, (N,))] += 3 * words[kind]
    seen = Observation(torch.randn(N, 2 * D), text, torch.ones(N, 6, dtype=torch.bool), torch.full((N, 2), 20))
    kl = torch.rand(N, K) + 1.0
    kl[torch.arange(N), kind] = 0.1
    return KlTable(seen, torch.rand(N) * 0.5 + 0.4, kl)


def nothing_to_tell(N=300, K=3):
    torch.manual_seed(0)
    words = torch.ones(N, 4, dtype=torch.bool)
    seen = Observation(torch.randn(N, 64), torch.randn(N, 4, 32), words, torch.full((N, 2), 20))
    kl = torch.rand(N, K).square()  # nothing that is seen tells which anchor is good
    kl[:, 1] -= 0.25 * kl[:, 1]
    return KlTable(seen, torch.rand(N) * 0.5 + 0.4, kl)


def test_a_network_learns_which_shape_a_question_needs():
    table, predictor = questions(), made(anchors=3)
    anchors = torch.randn(3, predictor.anchors.shape[1])
    found = fit_network(predictor, table, Anchors.for_all_budgets(anchors), FitSettings(epochs=25, rows=64, rate=3e-3))
    assert found.oracle == pytest.approx(0.1)
    assert found.predictor < found.static - 0.6 * (found.static - found.oracle)
    assert chosen_kl(predictor, table) < 0.4
    assert torch.equal(predictor.anchors, anchors)


def test_where_no_choice_helps_a_network_takes_the_one_best_anchor():
    table, predictor = nothing_to_tell(), made(anchors=3)
    found = fit_network(predictor, table, Anchors.for_all_budgets(torch.randn(3, predictor.anchors.shape[1])))
    assert found.predictor <= found.static + 3 * float(table.kl.std()) / (0.15 * len(table)) ** 0.5


def recalling(objective, table, reach=None):
    kernel = kernels.get("steps")
    anchors = torch.randn(table.kl.shape[1], kernel.num_parameters(tiny.LAYERS), dtype=torch.float64)
    everywhere = Anchors.for_all_budgets(anchors)
    return fit_predictor(
        objective, kernel, table, everywhere if reach is None else Anchors(anchors, reach), width=16, queries=2
    )


def test_a_memory_knows_which_shape_a_question_needs(objective):
    table, new = questions().take(torch.arange(300)), questions().take(torch.arange(300, 400))
    found = recalling(objective, table)
    assert found.held_out.oracle == pytest.approx(0.1)
    assert found.held_out.predictor < found.held_out.static - 0.6 * (found.held_out.static - found.held_out.oracle)
    own = chosen_kl(found.predictor, replace(new, kl=new.kl[:, columns_of(found)]))
    assert own < 0.4
    assert own == pytest.approx(by_hand(table, new), abs=0.05)


def columns_of(found):
    """Which of the three anchors of `questions` are left, by what the memory holds of them."""
    told = questions().take(torch.arange(300)).kl
    return [int((told - column[:, None]).abs().sum(0).argmin()) for column in found.predictor.memory.kl.T]


def by_hand(table, new):
    """The same rule in plain loops, on all axes and at the bandwidth that leaving each one out prefers."""
    best = choose_anchors(table.kl, table.observation)
    raw = raw_features(table.observation)
    centre, spread = feature_scales(raw)
    keys, points = scaled_features(raw, centre, spread), scaled_features(raw_features(new.observation), centre, spread)
    total = 0.0
    for row, point in enumerate(points):
        weight = (-(keys - point).square().sum(-1) / (2 * best.bandwidth)).exp()
        expected = [float((weight * table.kl[:, c]).sum() / weight.sum()) for c in best.columns]
        total += float(new.kl[row, best.columns[expected.index(min(expected))]])
    return total / len(new)


def test_where_no_choice_helps_a_memory_has_one_anchor(objective):
    found = recalling(objective, nothing_to_tell())
    assert len(found.anchors) == 1
    assert found.held_out.predictor == pytest.approx(found.held_out.static)


def test_each_range_of_budgets_keeps_anchors_of_its_own(objective):
    both = questions()
    low, high = both.take(torch.arange(200)), both.take(torch.arange(200, 400))
    kl = torch.full((400, 6), torch.inf)
    kl[:200, :3], kl[200:, 3:] = low.kl, high.kl
    table = KlTable(both.observation, torch.tensor([0.3] * 200 + [0.7] * 200), kl, torch.arange(200).repeat(2))
    reach = torch.tensor([[-1.0, 0.5]] * 3 + [[0.5, 2.0]] * 3)
    found = recalling(objective, table, reach)
    assert found.predictor.memory.kl.shape[0] == 200
    for budget, in_range in ((0.3, found.anchors.budget_range[:, 0] < 0), (0.7, found.anchors.budget_range[:, 0] > 0)):
        logits = found.predictor(both.observation, torch.full((400,), budget)).logits
        assert bool(in_range[logits.argmax(-1)].all())
        assert 2 <= int(in_range.sum()) <= 3


def test_a_memory_is_saved_with_its_predictor(objective, tmp_path):
    found = recalling(objective, questions())
    found.predictor.save_pretrained(tmp_path)
    again = Predictor.from_pretrained(tmp_path).eval()
    seen, budget = questions().observation, torch.full((400,), 0.5)
    assert torch.allclose(found.predictor(seen, budget).logits, again(seen, budget).logits, atol=1e-5)
    assert again.flops(20) > made(anchors=3).flops(20)


def test_an_unknown_way_to_fit_lists_the_known_ones(objective):
    table = questions(N=12)
    with pytest.raises(UnknownNameError, match="memory, network"):
        fit_predictor(
            objective,
            kernels.get("steps"),
            table,
            Anchors(torch.zeros(3, 1), torch.zeros(3, 2)),
            fit=FitSettings(method="magic"),
        )
