"""Resuming from an unpruned run gives what a run from the start gives, to the bit."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import tiny
from vispco import Pruner, Schedule
from vispco.core.errors import PrunerStateError
from vispco.engine.replay import Prefix
from vispco.evaluation.candidate import first_drop
from vispco.scorers import get

LAYERS = tiny.LAYERS
TWO = [[tiny.words(2, 1), tiny.picture(), tiny.words(5, 2)], [tiny.words(4, 3), tiny.picture(2, 4), tiny.words(3, 4)]]
SCHEDULES = {
    "full": Schedule.full(LAYERS),
    "layer 1": Schedule.single(1, 0.5, LAYERS),
    "layer 2": Schedule.single(2, 0.25, LAYERS),
    "withdraw": Schedule.withdraw(2, LAYERS),
    "stages": Schedule.stages({1: 0.8, 3: 0.3}, LAYERS),
}


def generated(model, inputs):
    out = model.generate(**inputs, max_new_tokens=3, do_sample=False, output_logits=True, return_dict_in_generate=True)
    return out.sequences, torch.stack(out.logits)


CASES = [
    *((name, scorer, "sdpa") for name in tiny.FIRST_CLASS for scorer in ("fastv", "sparsevlm", "fitprune", "random")),
    *((name, "fastv", "eager") for name in tiny.FIRST_CLASS),
    *((name, "fastv", "sdpa") for name in tiny.BUILDERS if name not in tiny.FIRST_CLASS),
]


@pytest.mark.parametrize(("name", "scorer", "attention"), CASES)
def test_tokens_and_logits_are_bit_identical(name, scorer, attention):
    model, inputs, scorer = tiny.build(name, attention), tiny.inputs(name, TWO), get(scorer)
    prefix = Prefix(model, scorer)
    with prefix.record():
        full = generated(model, inputs)
    for schedule in SCHEDULES.values():
        with Pruner(scorer, schedule)(model):
            alone = generated(model, inputs)
            with prefix.resume():
                resumed = generated(model, inputs)
        assert torch.equal(alone[0], resumed[0])
        assert torch.equal(alone[1], resumed[1])
    assert all(torch.equal(a, b) for a, b in zip(full, generated(model, inputs), strict=True))


@pytest.mark.parametrize("scorer", ["fastv", "fitprune", "random"])
@pytest.mark.parametrize("name", tiny.FIRST_CLASS)
def test_one_forward_pass_without_a_cache_resumes_too(name, scorer):
    model, inputs, scorer = tiny.build(name), tiny.inputs(name, TWO), get(scorer)
    prefix = Prefix(model, scorer)
    with torch.no_grad():
        with prefix.record():
            model(**inputs, use_cache=False)
        for schedule in SCHEDULES.values():
            with Pruner(scorer, schedule)(model):
                alone = model(**inputs, use_cache=False).logits
                with prefix.resume():
                    assert torch.equal(alone, model(**inputs, use_cache=False).logits)


@pytest.mark.parametrize("mine", ["fastv", "fitprune", "random"])
def test_a_prefix_recorded_for_another_scorer_still_serves(mine):
    model, inputs = tiny.build("qwen2_5_vl"), tiny.inputs("qwen2_5_vl", TWO)
    prefix = Prefix(model, get("random"))
    with prefix.record():
        generated(model, inputs)
    with Pruner(mine, SCHEDULES["layer 2"])(model):
        alone = generated(model, inputs)
        with prefix.resume():
            assert torch.equal(alone[1], generated(model, inputs)[1])


def test_the_layers_before_the_drop_do_not_compute():
    model, inputs, scorer = tiny.build("llava"), tiny.inputs("llava", TWO), get("fastv")
    prefix = Prefix(model, scorer)
    with prefix.record():
        generated(model, inputs)
    worked = []
    for index, layer in enumerate(prefix.layers):
        layer.mlp.register_forward_hook(lambda _, args, __, index=index: worked.append((index, args[0].shape[1])))
    try:
        with Pruner(scorer, Schedule.single(3, 0.6, LAYERS))(model), prefix.resume():
            generated(model, inputs)
    finally:
        for layer in prefix.layers:
            layer.mlp._forward_hooks.clear()
    assert [index for index, length in worked if length > 1] == [3]


def test_the_model_is_as_it_was_afterwards_also_after_an_exception():
    model, inputs, scorer = tiny.build("llava"), tiny.inputs("llava", TWO), get("fastv")
    before = {name: dict(vars(module)) for name, module in model.named_modules()}
    prefix = Prefix(model, scorer)
    with prefix.record():
        generated(model, inputs)
    with pytest.raises(RuntimeError, match="stop"), prefix.resume():
        raise RuntimeError("stop")
    assert all("forward" not in vars(module) for module in model.modules())
    assert all(
        vars(module)["_forward_hooks"] == before[name]["_forward_hooks"] for name, module in model.named_modules()
    )


def test_a_forward_that_an_instance_had_of_its_own_comes_back():
    model, inputs, scorer = tiny.build("llava"), tiny.inputs("llava", TWO), get("fastv")
    prefix = Prefix(model, scorer)
    layer = prefix.layers[0]
    own = layer.forward
    layer.forward = own
    try:
        with prefix.record():
            generated(model, inputs)
        with prefix.resume():
            generated(model, inputs)
        assert vars(layer)["forward"] is own
    finally:
        del layer.forward


def test_an_empty_prefix_says_so():
    scorer = get("fastv")
    with (
        pytest.raises(PrunerStateError, match="Record an unpruned run"),
        Prefix(tiny.build("llava"), scorer).resume(),
    ):
        pass


def test_the_first_drop_is_that_of_the_batch():
    counts = torch.tensor([[8, 8, 8, 4], [6, 6, 5, 5]])
    assert first_drop(counts, (8, 6)) == 2
    assert first_drop(counts[:1], (8,)) == 3
    assert first_drop(counts, (8, 7)) == 0
    assert first_drop(counts[:, :2], (8, 6)) == 2


def test_a_grid_computes_far_less():
    name, scorer = "llava", get("fastv")
    model, inputs = tiny.build(name, "eager"), tiny.inputs(name, TWO)
    grid = [(layer, keep) for layer in range(1, LAYERS) for keep in (0.01, 0.26, 0.51, 0.76)]
    prefix = Prefix(model, scorer)

    def alone():
        for layer, keep in grid:
            with Pruner(scorer, Schedule.single(layer, keep, LAYERS))(model):
                generated(model, inputs)

    def shared():
        with prefix.record():
            generated(model, inputs)
        for layer, keep in grid:
            first = prefix.resume()
            with Pruner(scorer, Schedule.single(layer, keep, LAYERS))(model), first:
                generated(model, inputs)

    def language_flops(work):
        with FlopCounterMode(display=False) as counter:
            work()
        return sum(
            sum(parts.values())
            for module, parts in counter.get_flop_counts().items()
            if module.endswith("model.language_model")
        )

    assert 0 < language_flops(shared) < 0.6 * language_flops(alone)
