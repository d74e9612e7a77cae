"""Budgets of the whole prefill: the vision tower is paid first, and the language model gets the rest."""

import re

import pytest
import torch

import tiny
import vispco
from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.cost import Budget, BudgetWarning, parse_budgets
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.timing.prediction import _flops_share


def test_a_budget_of_the_whole_prefill_is_read_and_written():
    assert Budget.of("0.4p") == Budget("prefill", 0.4)
    assert Budget.of("40%p").amount == pytest.approx(0.4)
    assert [str(each) for each in parse_budgets("0.4p,0.5")] == ["0.4p", "0.5"]
    assert Budget.of(Budget.of("0.4p").plain) == Budget.of("0.4p")
    assert Budget.of("0.4p").label == "40% of the whole prefill"
    with pytest.raises(InvalidInputError, match=re.escape("1.2p")):
        Budget.of("1.2p")


@pytest.mark.parametrize("budget", [0.6, 0.75, 0.9, 1.0])
@pytest.mark.parametrize("chain", ["divprune", "fastv"])
def test_no_prefill_of_a_shipped_model_exceeds_it_tower_inside(chain, budget):
    model, _ = vispco.load("tiny-qwen")
    config = model.config
    patch = 3 * config.vision_config.temporal_patch_size * config.vision_config.patch_size**2
    merge = config.vision_config.spatial_merge_size
    for sides in ((8, 8), (9, 12), (14, 10)):
        tokens = sides[0] * sides[1]
        ids = torch.tensor([[9] * 3 + [config.image_token_id] * tokens + list(range(10, 22))])
        given = {
            "input_ids": ids,
            "attention_mask": torch.ones_like(ids),
            "mm_token_type_ids": (ids == config.image_token_id).int(),
            "pixel_values": torch.randn(tokens * merge**2, patch),
            "image_grid_thw": torch.tensor([[1, merge * sides[0], merge * sides[1]]]),
        }
        whole = tiny.prefill_flops(model, given)
        pruner = PrunerSpec.choose(scorer=chain, budget=f"{budget}p").resolve(model)
        with pruner(model):
            spent = tiny.prefill_flops(model, given)
        assert spent <= budget * whole
        assert spent >= (budget - 0.1) * whole  # and it is used


@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen3_vl", "llava", "gemma3", "internvl", "idefics3"])
def test_every_described_family_keeps_it(name):
    model = tiny.build(name)
    for prompt in tiny.PROMPTS_OF_SIZES:
        given = tiny.inputs(name, [prompt])
        whole = tiny.prefill_flops(model, given)
        with PrunerSpec.choose(scorer="random", budget="0.9p").resolve(model)(model):
            assert tiny.prefill_flops(model, given) <= 0.9 * whole


def test_a_budget_under_the_tower_is_raised_to_the_floor_which_is_named():
    model = tiny.build("llava")
    given = tiny.inputs("llava", [tiny.PROMPTS_OF_SIZES[0]])
    with (
        PrunerSpec.choose(scorer="random", budget="0.01p").resolve(model)(model),
        pytest.warns(BudgetWarning, match=r"1% of the whole prefill lies under the floor of .*% of the whole prefill"),
    ):
        model(**given)


def test_a_tower_that_is_not_described_refuses_it_before_anything_runs():
    model = tiny.build("llava_next")
    pruner = PrunerSpec.choose(scorer="random", budget="0.9p").resolve(model)
    with pytest.raises(UnsupportedModelError, match="are not described"):
        pruner.apply(model)


def test_places_that_know_the_language_model_alone_refuse_it():
    model = tiny.build("llava")
    with pytest.raises(InvalidInputError, match="searched or selected by the language model's FLOPs"):
        _flops_share(Budget.of("0.5p"), model, 10, 16)
    with pytest.raises(InvalidInputError, match="What a joint search found can meet a mean"):
        PrunerSpec.choose(scorer="random", budget="mean:0.5p,max:0.9p").resolve(model)
    with pytest.raises(InvalidInputError, match="where a fraction of the FLOPs is meant"):
        PrunerSpec.choose(method="pyramiddrop", budget="0.5p").resolve(model)
