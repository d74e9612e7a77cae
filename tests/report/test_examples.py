"""Examples come from a real model under a real pruner; here an untrained one, whose tokens leave all the same."""

import base64

import pytest
import torch
from PIL import Image

from report.invented import searched
from vispco import cost as costs
from vispco import kernels, scorers
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.data import dataset
from vispco.evaluation.survivors import as_seen
from vispco.models.processor import JoinedProcessor
from vispco.pruner import search_files as disk
from vispco.pruner.pruner import Pruner
from vispco.pruner.search_files import FoundShape
from vispco.report.examples import choices_of, collect, collect_run, unpack
from vispco.report.run_files import EXAMPLES, read, save_examples
from vispco_zoo.definitions import build_image_processor, build_model
from vispco_zoo.tokenizer import build_tokenizer

LAYERS = {"tiny-qwen": 10, "tiny-llava": 8}


@pytest.fixture(scope="module", params=list(LAYERS))
def collected(request):
    torch.manual_seed(0)
    name = request.param
    model = build_model(name).eval()
    processor = JoinedProcessor(build_image_processor(name), build_tokenizer(name), model.config)
    schedules = {
        0.3: Schedule.single(2, 0.25, LAYERS[name]),
        0.9: Schedule.single(LAYERS[name] - 1, 0.5, LAYERS[name]),
    }
    samples = dataset("test")[:2]
    return name, samples, schedules, collect(model, processor, samples, schedules, max_new_tokens=3)


def test_every_layer_keeps_as_many_tokens_as_its_schedule_says(collected):
    name, _, schedules, examples = collected
    for example in examples:
        assert example.layers == LAYERS[name]
        for state in example.states:
            depth = base64.b64decode(state.depth)
            counts = schedules[state.budget].counts([example.rows * example.columns])[0].tolist()
            assert [sum(value > layer for value in depth) for layer in range(example.layers)] == counts


def test_a_smaller_picture_is_drawn_over_the_whole_one():
    torch.manual_seed(0)
    model = build_model("tiny-qwen").eval()
    processor = JoinedProcessor(build_image_processor("tiny-qwen"), build_tokenizer("tiny-qwen"), model.config)
    samples = [max(dataset("test")[:8], key=lambda sample: sample.area)]
    pruner = Pruner("random", Schedule.single(5, 0.5, 10), pixels=0.5, record=True)
    (example,) = collect(model, processor, samples, {0.5: pruner}, max_new_tokens=2)
    depths = base64.b64decode(example.states[0].depth)
    assert len(depths) == example.rows * example.columns
    assert set(depths) == {5, 10}
    assert 0.25 < sum(depth == 10 for depth in depths) / len(depths) < 0.75


def test_examples_tell_question_answers_and_picture(collected):
    _, samples, _, examples = collected
    for sample, example in zip(samples, examples, strict=True):
        assert (example.question, example.reference) == (sample.question, sample.answer)
        assert example.unpruned_correct is (example.unpruned == sample.answer)
        assert [state.budget for state in example.states] == [0.3, 0.9]
        assert example.image.startswith("data:image/webp;base64,")
        assert (example.width, example.height) == sample.image.size
        assert len(unpack(example.states[0].depth, example.rows, example.columns)[0]) == example.columns


def test_examples_survive_their_file(collected, tmp_path):
    *_, examples = collected
    searched().save(tmp_path / "frontier.json")
    assert save_examples(examples, tmp_path).name == EXAMPLES
    assert list(read(tmp_path).examples) == examples


def test_examples_of_a_search_are_its_planners_own(tmp_path):
    name, scorer, kernel = "tiny-llava", scorers.get("fastv"), kernels.get("linear")
    model = build_model(name).eval()
    processor = JoinedProcessor(build_image_processor(name), build_tokenizer(name), model.config)
    cost = costs.get("exact", model.config)
    config = {"scorer": scorer.to_dict(), "kernel": kernel.config(), "cost": cost.to_dict(), "budgets": [0.5, 0.8]}
    disk.write_config(tmp_path, config)
    disk.write_shapes(tmp_path, [FoundShape(0.5, kernel.initial(LAYERS[name]).double(), 0.1)])
    searched().save(tmp_path / "frontier.json")
    (example,) = collect_run(model, processor, dataset("test")[:1], tmp_path, max_new_tokens=2)
    assert list(read(tmp_path).examples) == [example]
    assert example.scorer == "fastv"
    less, more = (sum(base64.b64decode(state.depth)) for state in example.states)
    assert less < more < example.rows * example.columns * example.layers
    searched().save(tmp_path / "plain" / "frontier.json")
    with pytest.raises(InvalidInputError, match="not the folder of a search"):
        collect_run(model, processor, [], tmp_path / "plain")


def test_a_frontier_s_choices_are_those_it_affords():
    chosen = choices_of(searched(), [0.01, 0.5])
    assert chosen == {0.5: searched().pick(0.5).schedule}


def test_a_centre_crop_shows_what_the_model_sees():
    class Clip:
        do_center_crop, size, crop_size = True, {"shortest_edge": 100}, {"height": 100, "width": 100}

    wide = Image.new("RGB", (400, 200), "white")
    wide.paste("black", (100, 0, 300, 200))
    seen = as_seen(wide, Clip())
    assert seen.size == (200, 200)
    assert seen.getcolors() == [(200 * 200, (0, 0, 0))]
