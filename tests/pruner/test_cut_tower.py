"""Pruners with a part inside the vision tower: budgets of the whole prefill, specs, evaluation."""

import pytest
import torch

import tiny
import vispco
from methods.tower import DEPTH, deep
from vispco.core.errors import InvalidInputError
from vispco.cost import BudgetWarning
from vispco.pruner.planner_kinds import read_schedule
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers import Chain
from vispco.vllm.settings import _check_servable

L = tiny.LAYERS


def shipped_prompt(config, sides):
    patch = 3 * config.vision_config.temporal_patch_size * config.vision_config.patch_size**2
    merge, tokens = config.vision_config.spatial_merge_size, sides[0] * sides[1]
    ids = torch.tensor([[9] * 3 + [config.image_token_id] * tokens + list(range(10, 22))])
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == config.image_token_id).int(),
        "pixel_values": torch.randn(tokens * merge**2, patch, generator=torch.Generator().manual_seed(0)),
        "image_grid_thw": torch.tensor([[1, merge * sides[0], merge * sides[1]]]),
    }


@pytest.mark.parametrize("budget", [0.35, 0.5, 0.7])
@pytest.mark.parametrize("chain", ["divprune@tower.2+divprune", "uniform@tower.1+divprune@tower.3+fastv"])
def test_a_whole_prefill_with_a_cut_tower_keeps_its_budget_and_uses_it(chain, budget):
    model, _ = vispco.load("tiny-qwen")
    for sides in ((8, 8), (9, 12), (14, 10)):
        given = shipped_prompt(model.config, sides)
        whole = tiny.prefill_flops(model, given)
        pruner = PrunerSpec.choose(scorer=chain, budget=f"{budget}p").resolve(model)
        with pruner(model):
            spent = tiny.prefill_flops(model, given)
        assert spent <= budget * whole
        assert spent >= (budget - 0.1) * whole


def test_a_cut_tower_reaches_budgets_that_the_language_model_alone_cannot():
    model, _ = vispco.load("tiny-qwen")
    given = shipped_prompt(model.config, (12, 12))
    whole = tiny.prefill_flops(model, given)
    alone = PrunerSpec.choose(scorer="divprune", budget="0.4p").resolve(model)
    with alone(model), pytest.warns(BudgetWarning):
        assert tiny.prefill_flops(model, given) > 0.4 * whole
    cut = PrunerSpec.choose(scorer="divprune@tower.1+divprune", budget="0.4p").resolve(model)
    with cut(model):
        assert tiny.prefill_flops(model, given) <= 0.4 * whole


@pytest.mark.parametrize("name", ["qwen2_vl", "qwen2_5_vl", "qwen3_vl", "llava", "gemma3", "internvl", "idefics3"])
def test_every_family_keeps_it_with_a_cut_tower(name):
    model = deep(name)
    for prompt in tiny.PROMPTS_OF_SIZES:
        given = tiny.inputs(name, [prompt])
        whole = tiny.prefill_flops(model, given)
        with PrunerSpec.choose(scorer="random@tower.1+random", budget="0.85p").resolve(model)(model):
            assert tiny.prefill_flops(model, given) <= 0.85 * whole


def test_a_budget_of_the_language_model_is_still_a_share_of_the_unpruned_one():
    model = deep("qwen2_5_vl")
    given = tiny.inputs("qwen2_5_vl", [tiny.PROMPTS_OF_SIZES[1]])
    pruner = PrunerSpec.choose(scorer="divprune@tower.1+fastv", budget=0.45).resolve(model)
    cost = vispco.cost.get("exact", model.config)
    with pruner(model), torch.no_grad():
        model(**given)
        fraction = cost.fraction_of_counts(pruner.token_counts(model), pruner.workload(model))
        load = pruner.workload(model)
    assert int(load.num_visual) == 25
    assert int(load.full(1)) == 42
    assert 0.4 < float(fraction) <= 0.45


def test_a_schedule_with_a_tower_part_is_typed_saved_and_loaded(tmp_path):
    found = read_schedule("tower:1=0.5,2=0.25+single:2:0.1", L, DEPTH)
    assert found.tower == (1.0, 0.5, 0.25, 0.25)
    assert found.retention == (0.25, 0.25, 0.1, 0.1)
    found.save(tmp_path / "schedule.json")
    assert vispco.Schedule.load(tmp_path / "schedule.json") == found
    assert "tower" not in vispco.Schedule.full(L).to_dict()
    spec = PrunerSpec.of_schedule("divprune@tower.1+fastv", found)
    spec.save(tmp_path / "pruner")
    loaded = PrunerSpec.load(tmp_path / "pruner")
    assert loaded.chain == Chain.of("divprune@tower.1+fastv")
    assert loaded.resolve().tower == found.tower
    with pytest.raises(
        InvalidInputError,
        match=r"Block 7 was given for a stage of the vision tower\. Name each block once, from 0 to 3",
    ):
        read_schedule("tower:7=0.5", L, DEPTH)


def test_what_leaves_in_the_tower_cannot_come_back():
    with pytest.raises(InvalidInputError, match=r"0\.5 at the last block of the vision tower and 0\.8 at layer 0"):
        vispco.Schedule((0.8, 0.5), (1.0, 0.5))
    with pytest.raises(InvalidInputError, match=r"of the vision tower grows from 0\.5 at block 0 to 0\.7 at"):
        vispco.Schedule((0.5,), (0.5, 0.7))


@pytest.mark.parametrize(
    "written",
    [
        "divprune@tower.4+divprune+fastv",
        "uniform@tower.1+random(seed=3)@tower.3+fastv@6",
        "equal:divprune@tower.2+fastv",
    ],
)
def test_a_chain_with_places_in_the_tower_is_read_and_written(written):
    chain = Chain.of(written)
    assert str(chain) == written
    assert Chain.of(str(chain)) == chain
    assert Chain.of(chain.to_dict()) == chain


def test_places_that_cannot_cut_a_tower_say_so():
    model = deep("llava")
    with pytest.raises(InvalidInputError, match="for which no published method has a setting"):
        PrunerSpec.choose(method="divprune@tower.1+fastv").resolve(model)
    with pytest.raises(InvalidInputError, match="which is not measured cut"):
        PrunerSpec.choose(scorer="divprune@tower.1+fastv", budget="1MB").resolve(model)
    with pytest.raises(InvalidInputError, match="which vLLM runs whole"):
        _check_servable(Chain.of("divprune@tower.1+divprune"))


def test_a_mapping_names_places_in_the_tower_too():
    given = {6: "fastv", "tower.4": "divprune", 0: "divprune"}
    assert str(Chain.of(given)) == "divprune@tower.4+divprune+fastv@6"
    assert str(Chain.of("uniform@tower.4")) == "uniform@tower.4+uniform"
    assert str(Chain.of("vispruner@tower.4")) == "vispruner@tower.4+divprune"
    with pytest.raises(InvalidInputError, match="reads what only the language model has"):
        Chain.of("fastv@tower.4")
    with pytest.raises(InvalidInputError, match="Name those of the tower first"):
        Chain.of("fastv+divprune@tower.4")
    with pytest.raises(InvalidInputError, match=r"'tower\.x' was given as the layer"):
        Chain.of({"tower.x": "divprune"})
