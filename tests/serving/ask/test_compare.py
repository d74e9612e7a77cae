import pytest
from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.pruner.planner_kinds import first_layers
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain
from vispco.serving.ask import PictureQuestion, compare
from vispco.serving.ask.survivor_sheet import _layers_shown, _sheet, survivors_at


@pytest.mark.parametrize("budget", [0.2, 0.5, 0.8])
@pytest.mark.parametrize("method", [None, "fastv", "visionzip", "divprune+fastv", "random"])
def test_every_method_meets_every_budget_without_a_search(loaded, sample, method, budget):
    model, processor = loaded
    spec = PrunerSpec.choose(method=method, budget=budget)
    found = compare(model, processor, sample, spec.resolve(model), max_new_tokens=2, rounds=1)
    assert found.pruned.fraction <= budget
    assert found.unpruned.fraction == 1.0
    assert len(found.pruned.visual_tokens) == found.layers


def test_answers_are_those_of_an_evaluation(loaded, drawn, sample):
    model, processor = loaded
    spec = PrunerSpec.choose(budget=0.6)
    found = compare(model, processor, sample, spec.resolve(model), max_new_tokens=8, rounds=1)
    judge = TaskEvaluator(model, processor, [drawn], "fastv", max_new_tokens=8, details=True)
    told = [judge(candidate).details["predictions"] for candidate in (None, spec.resolve(model))]
    assert [found.unpruned.answer, found.pruned.answer] == [next(iter(each.values())) for each in told]


def test_the_grid_holds_as_many_survivors_as_each_layer_processed(loaded, sample):
    model, processor = loaded
    found = compare(model, processor, sample, PrunerSpec.choose(budget=0.6).resolve(model), max_new_tokens=2, rounds=1)
    assert found.depth is not None
    alive = [sum(value > layer for row in found.depth for value in row) for layer in range(found.layers)]
    assert alive == list(found.pruned.visual_tokens)
    assert found.unpruned.visual_tokens == (alive[0],) * found.layers


def test_a_chain_drops_before_the_model_and_again_inside():
    assert first_layers(Chain.of("fastv"), 10) == [4]
    assert first_layers(Chain.of("fastv@2"), 10) == [2]
    assert first_layers(Chain.of("fastv+random"), 10) == [4, 5]
    assert first_layers(Chain.of("fastv@8+random@9"), 10) == [8, 9]


def test_only_the_places_of_lost_tokens_are_faded():
    picture = Image.new("RGB", (40, 20), (10, 20, 30))
    shown = survivors_at(picture, ((3, 1),), 1)
    assert shown.getpixel((10, 10)) == (10, 20, 30)
    assert min(shown.getpixel((30, 10))) > 200


def test_a_sheet_shows_the_layers_at_which_tokens_leave():
    assert _layers_shown(((0, 2, 5),), 5) == [0, 2, 4]
    assert _layers_shown((tuple(range(100)),), 100, most=12)[0] == 0
    assert len(_layers_shown((tuple(range(100)),), 100, most=12)) == 12
    assert _sheet(Image.new("RGB", (9, 400)), ((1,), (2,)), 2, ["a very long question " * 40]).width > 100


@pytest.mark.parametrize("budget", [0.0, 1.5, float("nan"), -1])
def test_a_budget_out_of_range_is_refused(budget):
    with pytest.raises(InvalidInputError, match="fraction of the unpruned FLOPs"):
        PrunerSpec.choose(budget=budget)


def test_a_folder_and_a_method_together_are_refused():
    with pytest.raises(InvalidInputError, match="Keep one of them"):
        PrunerSpec.choose(pruner="runs/one", method="fastv")


def test_a_picture_that_is_none_is_refused(tmp_path):
    path = tmp_path / "notes.png"
    path.write_text("no picture")
    with pytest.raises(InvalidInputError, match="cannot be read"):
        PictureQuestion.read(path, "what is this?")
