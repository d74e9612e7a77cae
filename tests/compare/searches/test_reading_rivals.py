"""AutoPrune, BTP's layers, downsampling and scaled presets, on small untrained models."""

import math
import warnings
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import tiny
from compare.searches.conftest import built, evaluator
from compare.searches.synthetic_search import make_sizes
from vispco.compare.searches import Calibration, SampleSizes, compare, get, run_search
from vispco.compare.searches.autoprune import _attention_bits, _AutoPrune, _information
from vispco.compare.searches.btp_layers import _equal_stages, _layer_similarity, _pick_layers
from vispco.compare.searches.downsample import _resized, _Shrinker
from vispco.core.errors import BudgetFloorError, NotApplicableError, UnknownNameError
from vispco.core.schedule import Schedule
from vispco.cost import BudgetWarning
from vispco.engine import attention_calls
from vispco.evaluation import TaskEvaluator
from vispco.families import family_of
from vispco.pruner import presets

WEIGHTS = st.lists(st.lists(st.floats(0.01, 1), min_size=4, max_size=4), min_size=1, max_size=5)


def naive_information(rows):
    """Bits, by the definition."""
    p = [[w / sum(row) for w in row] for row in rows if sum(row) > 0]
    column = [sum(row[v] for row in p) / len(p) for v in range(len(p[0]))]
    return sum(w * math.log2(w / column[v]) / len(p) for row in p for v, w in enumerate(row) if w > 0)


@settings(deadline=None)
@given(WEIGHTS, st.integers(0, 3))
def test_information_is_that_of_the_definition_and_rows_that_are_not_there_do_not_count(rows, more):
    weights = torch.tensor([rows + [[0.5, 0.1, 0.1, 0.1]] * more], dtype=torch.float64)
    present = torch.tensor([[True] * len(rows) + [False] * more])
    assert float(_information(weights, present)) == pytest.approx(naive_information(rows), abs=1e-9)


def test_rows_that_look_alike_say_nothing_and_rows_that_point_elsewhere_say_all():
    assert float(_information(torch.ones(1, 4, 8))) == pytest.approx(0.0, abs=1e-9)
    assert float(_information(torch.eye(8)[None])) == pytest.approx(3.0)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", tiny.FIRST_CLASS)
def test_bits_are_those_of_whole_attention_maps(name, side):
    prompts = [
        (tiny.words(2, 1), tiny.picture(), tiny.words(5, 2)),
        (tiny.words(4, 3), tiny.picture(4, 5), tiny.words(7, 4)),
    ]
    inputs, model = tiny.inputs(name, prompts, side=side), tiny.build(name)
    layout, read = family_of(model).layout(model, inputs), []
    with torch.no_grad():
        told = tiny.build(name, "eager")(**inputs, output_attentions=True, use_cache=False).attentions
        with attention_calls(model, lambda _, call: read.append(_attention_bits(call, layout))):
            model(**inputs, use_cache=False)
    for weights, found in zip(told, read, strict=True):
        for row in range(layout.batch_size):
            visual = layout.visual[row].nonzero()[:, 0]
            text = (layout.real[row] & ~layout.visual[row]).nonzero()[:, 0]
            text = text[text > visual[0]]
            heads = weights[row][:, text][:, :, visual].double()
            wanted = sum(naive_information(head.tolist()) for head in heads)
            assert float(found[row]) == pytest.approx(wanted, rel=1e-3, abs=1e-4)


def test_autoprune_is_steeper_where_the_question_says_less():
    curves = _AutoPrune().curve(torch.tensor([0.0, 1.0, 5.0]), 32, 2)
    assert torch.equal(curves[:, :2], torch.ones(3, 2, dtype=torch.float64))
    wanted = 0.75 / (1 + math.exp(0.4 * (20 - 14.9 - 0.4)))
    assert float(curves[0, 20]) == pytest.approx(wanted)
    assert float(curves[2, 20]) == pytest.approx(0.375), "flat where k is 0"
    drop = curves[:, 2] - curves[:, -1]
    assert drop[0] > drop[1] > drop[2]


def test_autoprune_decides_for_each_input_alone_and_within_its_budget():
    test = evaluator("test")
    sizes = SampleSizes.of(test)
    rival = get("autoprune")
    found = rival.search(evaluator(), 0.5)
    assert (found.spent.total, found.method) == (0.0, "autoprune")
    schedule = rival.schedules(test, sizes, 0.5)
    assert bool((sizes.fractions(schedule.counts(sizes.num_visual.tolist())) <= 0.5).all())
    one = TaskEvaluator(*built("tiny-qwen"), test.samples[2:3], "fastv", max_new_tokens=1)
    alone = rival.schedules(one, SampleSizes.of(one), 0.5).counts(sizes.num_visual[2:3].tolist())
    assert torch.equal(alone[0], schedule.counts(sizes.num_visual.tolist())[2])
    assert found.evaluate(test, sizes).fraction["exact"] <= 0.5


def test_similarity_of_layers_is_that_of_their_hidden_states():
    given_set = evaluator()
    model, sums, tokens = given_set.model, 0.0, 0
    for batch in given_set.batches:
        encoded = given_set.store.encode(batch.samples)
        layout = family_of(model).layout(model, encoded.inputs)
        with torch.no_grad():
            states = model(**encoded.inputs, output_hidden_states=True, use_cache=False).hidden_states
        chosen = [state[layout.visual].float() for state in states[:-1]]
        sums = sums + torch.stack([torch.cosine_similarity(a, b, dim=-1).sum() for a, b in pairwise(chosen)])
        tokens += int(layout.visual.sum())
    torch.testing.assert_close(_layer_similarity(given_set), (sums / tokens).double(), rtol=1e-4, atol=1e-5)


def test_stages_stand_behind_the_layers_that_change_most_and_share_the_budget():
    similarity = torch.tensor([0.2, 0.9, 0.5, 0.8, 0.6])
    assert _pick_layers(similarity, 3, 1) == [1, 3, 5]
    assert _pick_layers(similarity, 2, 2) == [3, 5]
    sizes = make_sizes()
    curve = _equal_stages([1, 3], 0.5, sizes).retention
    assert curve[1] == pytest.approx(curve[3] ** 0.5)
    spent = float(sizes.cost.relaxed(torch.tensor([curve], dtype=torch.float64), sizes.typical))
    assert spent / float(sizes.cost.full(sizes.typical)) == pytest.approx(0.5, abs=1e-6)
    found = get("btp-layers", samples=2).search(evaluator(), 0.5)
    assert found.provenance["looked_at"] == 2
    assert found.spent.teacher > 0
    assert found.evaluations == 0


def test_downsampling_pays_for_tower_and_language_model():
    learned, test = evaluator(), evaluator("test")
    sizes = SampleSizes.of(test)
    found = get("downsample").search(learned, 0.6)
    result = found.evaluate(test, sizes)
    account = result.details["downsample"]
    assert result.fraction["exact"] <= 0.6
    assert account["tower"] < 1
    assert account["language"] > result.fraction["exact"], "what the tower saves is spent on tokens"
    without = get("downsample", tower=False).search(learned, 0.6).evaluate(test, sizes)
    assert without.fraction["exact"] == pytest.approx(without.details["downsample"]["language"])
    assert without.details["downsample"]["language"] < account["language"]


def test_the_largest_picture_within_the_budget_is_taken():
    test = evaluator("test")
    shrinker = _Shrinker(test, SampleSizes.of(test).cost)
    sample = max(test.samples, key=lambda each: each.area)
    small = shrinker.shrink(sample, 0.5)
    assert small.charged <= 0.5
    assert small.sample.image.width < sample.image.width
    assert shrinker.shrink(sample, 1.0).sample is sample
    wider = small.sample.image.width / sample.image.width + 1 / 32
    bigger = shrinker._priced(sample, wider, shrinker._prices(sample, 1.0))
    assert bigger.charged > 0.5 or bigger.language == small.language
    assert _resized(sample, 1.0) is sample


def test_a_model_with_as_many_tokens_at_any_size_is_not_downsampled_and_the_comparison_goes_on():
    learned, test = evaluator(name="tiny-llava"), evaluator("test", name="tiny-llava")
    with pytest.raises(NotApplicableError, match="whatever its size"):
        get("downsample").search(learned, 0.5)
    found = compare(learned, test, 0.5, ["downsample", "vtw"])
    assert [row.method for row in found.rows] == ["unpruned", "vtw"]
    assert "whatever its size" in found.details["not_run"]["downsample"]


def test_a_published_method_is_scaled_as_presets_do_it():
    learned, test = evaluator(), evaluator("test")
    found = get("scaled:pyramiddrop").search(learned, 0.5)
    assert (found.method, found.spent.total) == ("scaled:pyramiddrop", 0.0)
    own = test(presets.pruner("pyramiddrop", test.model, budget=0.5))
    got = test(found.deploy(SampleSizes.of(test)))
    assert (got.flops, got.accuracy) == (own.flops, own.accuracy)
    with pytest.warns(BudgetWarning), pytest.raises(BudgetFloorError, match="where it keeps least"):
        get("scaled:pyramiddrop").search(learned, 0.2)
    with pytest.raises(UnknownNameError, match="Did you mean 'pyramiddrop'"):
        get("scaled:piramiddrop")


@pytest.mark.parametrize("name", ["tpe-joint", "vflowopt"])
def test_searches_with_scorers_of_their_own_meet_the_budget_on_a_model(name):
    learned, test = Calibration(evaluator(), measure="kl"), evaluator("test")
    run = run_search(get(name, trials=2, samples=2), learned, (0.4, 0.7))
    sizes = learned.sizes.first(2)
    assert run.spent.teacher == sizes.total_flops(Schedule.full(10)), "both budgets share the unpruned pass"
    assert run.spent.measured > 0
    for budget, result in run.evaluate(test).items():
        assert result.fraction["exact"] <= budget + 1e-9
        assert run.candidates[budget].deploy(SampleSizes.of(test)).chain.earliest_layer in (0, 1)


def test_scaled_alone_takes_the_method_that_is_best_on_the_calibration_set(monkeypatch):
    wanted = ["fastv", "divprune", "pyramiddrop"]
    monkeypatch.setattr("vispco.compare.searches.scaled.PRESETS", wanted)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)
        found = get("scaled", samples=2).search(Calibration(evaluator(), measure="kl"), 0.4)
    scores = found.provenance["scores"]
    assert list(scores) == wanted
    assert found.provenance["method"] == max(scores, key=scores.get)
    assert found.evaluations == 3
