"""Pixels: a pruner may let pictures enter with a share of their pixels, and its budget stays one of the whole picture."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import tiny
import vispco
from vispco.core.errors import InvalidInputError, PrunerStateError, UnsupportedModelError
from vispco.core.pixels import least_whole_side, shrunk_side
from vispco.cost.formulas import counted_flops
from vispco.data import dataset
from vispco.evaluation import TaskEvaluator
from vispco.evaluation.encoded import encode, read
from vispco.families import family_of
from vispco.pruner.picture_setting import shrink_processor
from vispco.pruner.pruner_spec import PrunerSpec


def samples(number=1):
    return list(dataset("test", "counting", limit=number, seed=5))


@given(side=st.integers(1, 200), share=st.floats(0.05, 1.0))
def test_the_least_whole_side_is_the_smallest_that_shrinks_to_this_one(side, share):
    small = shrunk_side(side, share)
    least = least_whole_side(small, share)
    assert shrunk_side(least, share) == small
    assert least <= side
    assert all(shrunk_side(other, share) < small for other in range(1, least))


@pytest.mark.parametrize("name", ["tiny-qwen", "tiny-qwen3", "tiny-llava"])
@pytest.mark.parametrize("budget", ["0.5p", 0.4])
def test_a_pruner_with_pixels_keeps_its_budget_of_the_whole_picture_by_torchs_counter(name, budget):
    model, processor = vispco.load(name)
    pruner = PrunerSpec.choose(scorer="divprune", budget=budget, pixels=0.6).resolve(model)
    for sample in samples(3):
        whole = encode(model, processor, [sample])
        small = encode(model, processor, [sample], pruner=pruner)
        assert small.num_visual[0] < 0.75 * whole.num_visual[0]
        with pruner(model):
            spent = tiny.prefill_flops(model, small.inputs)
        full = tiny.prefill_flops(model, whole.inputs)
        if budget == 0.4:  # of the language model alone
            with counted_flops() as small_tower, torch.no_grad():
                model.model.get_image_features(**_pictures(small))
            with counted_flops() as tower, torch.no_grad():
                model.model.get_image_features(**_pictures(whole))
            spent, full = spent - small_tower.get_total_flops(), full - tower.get_total_flops()
        assert spent <= float(str(budget).rstrip("p")) * full


def _pictures(encoded):
    found = {name: encoded.inputs[name] for name in ("pixel_values", "image_grid_thw") if name in encoded.inputs}
    if "image_grid_thw" not in found:
        found["interpolate_pos_encoding"] = True
    return found


def test_a_smaller_grid_is_the_processors_own_grid_shrunk():
    model, processor = vispco.load("tiny-qwen")
    small = shrink_processor(processor, 0.5)
    merge = model.config.vision_config.spatial_merge_size
    for size in ((224, 224), (60, 300), (1000, 700)):
        picture = [Image.new("RGB", size, "teal")]
        whole, less = (tool.image_processor(images=picture)["image_grid_thw"][0] for tool in (processor, small))
        assert [int(n) // merge for n in less[1:]] == [shrunk_side(int(n) // merge, 0.5) for n in whole[1:]]


def test_pixels_are_saved_shown_and_never_ignored(tmp_path):
    model, processor = vispco.load("tiny-llava")
    spec = PrunerSpec.choose(scorer="divprune", budget=0.5, pixels=0.5)
    spec.save(tmp_path / "pruner")
    assert PrunerSpec.load(tmp_path / "pruner") == spec
    assert "50% of the pixels" in spec.title
    pruner = spec.resolve(model)
    with pytest.raises(PrunerStateError, match=r"0.5 of their pixels.*pruner.prepare"):
        pruner.apply(model)
    pruner.prepare(processor)
    whole = encode(model, processor, samples())
    with pruner(model), pytest.raises(InvalidInputError, match=r"made for pictures with 0.5 of their pixels, 7 x 7"):
        model(**whole.inputs)


def test_towers_of_one_size_refuse_pixels_and_wrong_shares_are_refused():
    _, processor = vispco.load("tiny-gemma")
    with pytest.raises(UnsupportedModelError, match="same number of tokens, whatever its size"):
        shrink_processor(processor, 0.5)
    for share in (0, 1.5, True):
        with pytest.raises(InvalidInputError, match="share of its pixels"):
            PrunerSpec.choose(scorer="divprune", budget=0.5, pixels=share)
    with pytest.raises(InvalidInputError, match="time of the whole picture is not known"):
        PrunerSpec.choose(scorer="divprune", budget="0.5t", pixels=0.5)
    assert shrink_processor(processor, 1.0) is processor


def test_an_evaluation_shows_the_smaller_pictures_and_counts_against_the_whole_ones():
    model, processor = vispco.load("tiny-qwen3")
    judge = TaskEvaluator(model, processor, samples(3), kl=True)
    whole, small = judge.many([None, PrunerSpec.choose(scorer="random", budget=1.0, pixels=0.5).resolve(model)])
    assert whole.fraction["prefill"] == 1.0
    assert 0.3 < small.fraction["prefill"] < 0.65
    assert small.kl > 0
    shrunk = shrink_processor(processor, 0.5)
    for sample in samples(3):
        assert read(model, shrunk, sample).num_visual < 0.7 * read(model, processor, sample).num_visual
    assert small.fraction["prefill"] == pytest.approx(
        sum(
            _flops(model, shrunk, sample) / _flops(model, processor, sample) for sample in samples(3)
        ) / 3, rel=1e-9
    )  # fmt: skip


def _flops(model, processor, sample):
    return tiny.prefill_flops(model, encode(model, processor, [sample]).inputs)


def test_what_is_known_of_whole_pictures_is_not_taken_for_smaller_ones_of_as_many_tokens():
    model, _ = vispco.load("tiny-qwen")
    merge, token = model.config.vision_config.spatial_merge_size, model.config.image_token_id
    ids = torch.tensor([[9, 9] + [token] * 36 + [10, 11]])
    sizes = []
    for grid, share in (((6, 6), 1.0), ((6, 6), 0.5), ((4, 9), 0.5)):
        inputs = {"input_ids": ids, "image_grid_thw": torch.tensor([[1, merge * grid[0], merge * grid[1]]])}
        sizes.append(family_of(model).layout(model, inputs, pixels=share).prompt_sizes.tolist())
    assert sizes[0] == [[4, 36, 2, 0]]
    assert sizes[1] == [[4, 36, 2, 0, least_whole_side(6, 0.5) ** 2]]
    assert sizes[2] == [[4, 36, 2, 0, least_whole_side(4, 0.5) * least_whole_side(9, 0.5)]]
