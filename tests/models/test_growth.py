from dataclasses import replace

import pytest
import torch

from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco_zoo.definitions import build_image_processor, build_model
from vispco_zoo.initialization import grow
from vispco_zoo.layer_removal import layer_removed, measure_layer_removal, removal_penalty
from vispco_zoo.model_trainer import ModelTrainer
from vispco_zoo.packed_batch import answers, visual_tokens
from vispco_zoo.recipe import Growth, Recipe, Round, recipe

GROWTH = recipe("tiny-deep").growth


@pytest.fixture(scope="module")
def small():
    return build_model("tiny-qwen", seed=1).eval()


@pytest.fixture(scope="module")
def deep():
    return build_model("tiny-deep", seed=2).eval()


def logits(model):
    tokens = torch.arange(9, 21).reshape(2, 6)
    with torch.no_grad():
        return model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits


def test_copies_without_branches_leave_the_function_as_it_was(small, deep):
    grow(small, deep, Growth("tiny-qwen", GROWTH.copies, (1.0,) * 10, own=0.0))
    first = 0
    for copies in GROWTH.copies:  # all but the first copy of each layer pass the hidden states unchanged
        for layer in deep.model.language_model.layers[first + 1 : first + copies]:
            layer.self_attn.o_proj.weight.data.zero_()
            layer.mlp.down_proj.weight.data.zero_()
        first += copies
    assert torch.allclose(logits(deep), logits(small), atol=1e-5)


def test_the_copies_of_a_layer_add_up_to_it_and_differ_in_their_own_heads_and_neurons(small, deep):
    scales = tuple(1 / count for count in GROWTH.copies)
    grow(small, deep, Growth("tiny-qwen", GROWTH.copies, scales, own=1.0))
    source, copies = small.model.language_model.layers[2], deep.model.language_model.layers[4:8]
    for name in ("self_attn.o_proj", "mlp.down_proj"):
        weights = [layer.get_submodule(name).weight for layer in copies]
        assert torch.allclose(sum(weights), source.get_submodule(name).weight, atol=1e-5)
        used = torch.stack([weight.abs().sum(0) > 0 for weight in weights])
        assert torch.equal(used.sum(0), torch.ones(used.shape[1], dtype=torch.long))
    assert torch.equal(copies[3].mlp.up_proj.weight, source.mlp.up_proj.weight)


def test_copies_that_do_not_fit_are_refused_with_both_numbers(small, deep):
    with pytest.raises(InvalidInputError, match=r"needs 10 numbers of 1 or more that add up to 36"):
        grow(small, deep, Growth("tiny-qwen", (1,) * 10, (1.0,) * 10))


def test_removing_a_layer_equals_a_layer_whose_branches_are_zero(small):
    with layer_removed(small, 3):
        removed = logits(small)
    layer = small.model.language_model.layers[3]
    kept = [layer.self_attn.o_proj.weight.data.clone(), layer.mlp.down_proj.weight.data.clone()]
    layer.self_attn.o_proj.weight.data.zero_()
    layer.mlp.down_proj.weight.data.zero_()
    zero = logits(small)
    layer.self_attn.o_proj.weight.data.copy_(kept[0])
    layer.mlp.down_proj.weight.data.copy_(kept[1])
    assert torch.allclose(removed, zero, atol=1e-5)
    assert not torch.allclose(logits(small), removed, atol=1e-3)


def test_the_removal_table_has_a_row_for_each_layer_and_zero_for_one_that_does_nothing(small):
    layer = small.model.language_model.layers[5]
    kept = [layer.self_attn.o_proj.weight.data.clone(), layer.mlp.down_proj.weight.data.clone()]
    layer.self_attn.o_proj.weight.data.zero_()
    layer.mlp.down_proj.weight.data.zero_()
    found = measure_layer_removal(small, build_image_processor("tiny-qwen"), dataset("test", limit=1)[:])
    layer.self_attn.o_proj.weight.data.copy_(kept[0])
    layer.mlp.down_proj.weight.data.copy_(kept[1])
    assert [entry.layer for entry in found] == list(range(10))
    assert found[5].kl == pytest.approx(0.0, abs=1e-5)
    assert found[5].points == 0.0
    assert not found[5].matters
    assert found[0].kl > 0.01
    assert found[0].matters


def test_a_grown_model_trains_with_a_fixed_tower(tmp_path):
    plan = Recipe(steps=2, warmup=0, pictures=1, questions=2, tower=0.0, polish=2, rounds=(Round(0.5),), smoothing=0.1)
    trainer = ModelTrainer("tiny-qwen", tmp_path, plan=replace(plan, growth=None))
    before = {name: parameter.detach().clone() for name, parameter in trainer.parameters.items()}
    trainer.step()
    moved = {name for name, parameter in trainer.parameters.items() if not torch.equal(parameter, before[name])}
    assert any(name.startswith("model.language_model.layers.9.") for name in moved)
    assert not any(name.startswith(("model.visual.", "dense.")) for name in moved)


def test_a_round_may_have_its_own_smoothing():
    plan = Recipe(
        steps=4, warmup=0, polish=1, rounds=(Round(0.5), Round(0.5, smoothing=0.0), Round(0.5)), smoothing=0.1
    )
    assert [plan.smoothing_at(step) for step in range(4)] == [0.1, 0.1, 0.0, 0.1]
    assert Recipe.from_dict(plan.to_dict()) == plan


def test_the_penalty_of_removal_is_zero_where_a_layer_matters_and_its_gradient_makes_one_matter(tmp_path):
    plan = Recipe(steps=2, warmup=0, pictures=1, questions=2, tower=0.0, polish=2, rounds=(Round(0.5, removal=0.03),))
    trainer = ModelTrainer("tiny-qwen", tmp_path, plan=plan)
    batch = trainer.batch(0)
    features = tuple(level.detach() for level in visual_tokens(trainer.model, batch.pixels))

    def penalty(layer, least=0.03):
        logits, _, _ = answers(trainer.model, batch, features)
        return removal_penalty(trainer.model, batch, features, logits, layer, least)

    assert float(penalty(0, least=1e-6).detach()) == 0.0
    weak = trainer.model.model.language_model.layers[5]
    for branch in (weak.self_attn.o_proj, weak.mlp.down_proj):
        branch.weight.data.mul_(1e-3)
    before = penalty(5)
    size = float(before.detach())
    assert size > 1.0
    before.backward()
    with torch.no_grad():
        for parameter in trainer.parameters.values():
            if parameter.grad is not None:
                parameter.sub_(1e-3 * parameter.grad / (parameter.grad.norm() + 1e-12))
    assert float(penalty(5).detach()) < size
    trainer.step()
