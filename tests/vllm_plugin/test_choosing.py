"""One picture's choice is that of the pruner, and places travel exactly."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import vispco
from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.scorers import Chain
from vispco.vllm.choosing import (
    BASE,
    check_places,
    choose,
    decode_places,
    encode_places,
    grid_places,
    line_places,
    prompt_positions,
    tower_batches,
)
from vispco.vllm.settings import kept_tokens


@given(
    st.lists(st.tuples(*[st.integers(0, BASE**2 - 1)] * 3), min_size=1),
    st.sampled_from(["float32", "bfloat16", "float16"]),
)
def test_places_survive_every_type(places, dtype):
    given = torch.tensor(places)
    assert torch.equal(decode_places(encode_places(given, getattr(torch, dtype))), given)


def test_a_place_that_does_not_fit_is_refused():
    check_places(BASE**2 - 1)
    with pytest.raises(InvalidInputError, match="max_pixels"):
        check_places(BASE**2)


def naive_positions(length, pictures):
    """Token after token: the positions of the unpruned prompt, with a picture's tokens at its beginning."""
    found, at, starts = [], 0, {offset: (left, span) for offset, left, span in pictures}
    token = 0
    while token < length:
        left, span = starts.get(token, (0, 0))
        if left:
            found += [at] * left
            token, at = token + left, at + span
        else:
            found.append(at)
            token, at = token + 1, at + 1
    return found, at - length


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 6), st.integers(1, 9)), max_size=3), st.integers(1, 4))
def test_positions_are_those_of_a_walk_over_the_tokens(pictures, behind):
    token, given = 0, []
    for before, left, span in pictures:
        given.append((token + before, left, span))
        token += before + left
    positions, delta = prompt_positions(token + behind, given)
    expected, offset = naive_positions(token + behind, given)
    assert positions.tolist() == [expected] * 3
    assert delta == offset


@given(st.lists(st.integers(1, 9), min_size=1), st.integers(1, 20))
def test_pictures_go_to_the_tower_in_order_and_not_too_many_at_once(sizes, most):
    batches = tower_batches(sizes, most)
    assert [size for which in batches for size in sizes[which]] == sizes
    assert all(len(sizes[which]) == 1 or sum(sizes[which]) <= most for which in batches)
    assert all(sum(sizes[which]) + sizes[which.stop] > most for which in batches[:-1])


def test_grid_and_line_places():
    index = torch.tensor([0, 5, 11])
    assert grid_places(index, (1, 3, 4)).tolist() == [[0, 0, 0], [0, 1, 1], [0, 2, 3]]
    assert line_places(index).tolist() == [[0] * 3, [5] * 3, [11] * 3]


@pytest.mark.parametrize("scorer", ["divprune", "uniform", "random"])
@pytest.mark.parametrize("name", ["tiny-qwen", "tiny-llava"])
def test_the_choice_is_that_of_the_pruner(scorer, name):
    model, processor = vispco.load(name)
    config = model.config.get_text_config()
    seen = []
    model.model.language_model.register_forward_pre_hook(
        lambda _, args, kwargs: seen.append(kwargs["inputs_embeds"]), with_kwargs=True
    )
    for sample in dataset("test", "table", 3):
        inputs = encode(model, processor, [sample]).inputs
        seen.clear()
        pruner = vispco.Pruner(scorer, vispco.Schedule((0.25,) * config.num_hidden_layers), record=True)
        with torch.no_grad(), pruner(model):
            model(**inputs)
            kept = pruner.survivors(model)[0][0].nonzero()[:, 0]
        visual = inputs["input_ids"][0] == model.config.image_token_id
        number = int(visual.sum())
        if "image_grid_thw" in inputs:
            merge = model.config.vision_config.spatial_merge_size
            _, rows, columns = (inputs["image_grid_thw"][0]).tolist()
            grid = (1, rows // merge, columns // merge)
        else:
            grid = (1, 10, 10)
        count = kept_tokens(number, 0.25)
        assert choose(Chain.of(scorer).scorers[0], seen[0][0, visual], grid, count).tolist() == kept.tolist()
