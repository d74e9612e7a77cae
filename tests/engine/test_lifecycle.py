"""What a pruner leaves behind: nothing."""

from __future__ import annotations

import copy
import threading

import pytest
import torch

from tiny import DEFAULT, FIRST_CLASS, LAYERS, _built, build, inputs
from vispco import Pruner, Schedule
from vispco.core.errors import PrunerStateError
from vispco.engine.attention import PREFIX

SCHEDULE = Schedule((1.0, 0.5, 0.5, 0.25))


def hooks(model):
    names = ("_forward_hooks", "_forward_pre_hooks", "_forward_hooks_with_kwargs", "_forward_pre_hooks_with_kwargs")
    return sum(len(getattr(m, n)) for m in model.modules() for n in names)


def fingerprint(model):
    classes = [type(m) for m in model.modules()]
    attributes = [sorted(vars(m)) for m in model.modules()]
    implementations = {id(m.config): m.config._attn_implementation for m in model.modules() if hasattr(m, "config")}
    state = {k: v.clone() for k, v in model.state_dict().items()}
    return classes, attributes, implementations, state, hooks(model)


def same(a, b):
    return (
        a[0] == b[0]
        and a[1] == b[1]
        and a[2] == b[2]
        and a[3].keys() == b[3].keys()
        and all(torch.equal(a[3][k], b[3][k]) for k in a[3])
        and a[4] == b[4]
    )


@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_the_model_is_as_it_was_after_the_block(family, mode):
    model, x = build(family), inputs(family, [DEFAULT])
    with torch.no_grad():
        plain = model(**x).logits
        before = fingerprint(model)
        with Pruner("fitprune", SCHEDULE, mode=mode)(model):
            assert hooks(model) > before[4]
            model(**x)
    assert same(before, fingerprint(model))
    with torch.no_grad():
        assert torch.equal(model(**x).logits, plain)


@pytest.mark.parametrize("mode", ["drop", "mask"])
def test_the_model_is_as_it_was_after_an_exception_inside_a_layer(mode):
    model, x = build("llava"), inputs("llava", [DEFAULT])
    with torch.no_grad():
        plain = model(**x).logits
    before = fingerprint(model)

    def fail(*_):
        raise ZeroDivisionError

    handle = model.model.language_model.layers[2].self_attn.o_proj.register_forward_hook(fail)
    with pytest.raises(ZeroDivisionError), Pruner("fastv", SCHEDULE, mode=mode)(model):
        model(**x)
    handle.remove()
    assert same(before, fingerprint(model))
    with torch.no_grad():
        assert torch.equal(model(**x).logits, plain)


def test_after_an_exception_the_same_pruner_goes_on_with_the_next_input():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    pruner = Pruner("fastv", SCHEDULE)
    with torch.no_grad():
        with pruner(model):
            want = model(**x).logits
        with pruner(model):
            with pytest.raises(ValueError, match="do not match"):
                model(**{**x, "pixel_values": x["pixel_values"].repeat(2, 1, 1, 1)})
            assert torch.equal(model(**x).logits, want)


def test_apply_and_remove_do_what_the_block_does():
    model, x = build("qwen2_5_vl"), inputs("qwen2_5_vl", [DEFAULT])
    pruner, before = Pruner("fastv", SCHEDULE), fingerprint(model)
    with torch.no_grad():
        with pruner(model):
            want = model(**x).logits
        assert pruner.apply(model) is model
        assert torch.equal(model(**x).logits, want)
        pruner.remove(model)
    assert same(before, fingerprint(model))


def test_applying_twice_says_so_and_leaves_the_first_in_place():
    model = build("llava")
    first, second = Pruner("fastv", SCHEDULE), Pruner("random", SCHEDULE)
    before = hooks(model)
    with first(model):
        inside = hooks(model)
        for pruner in (first, second):
            with pytest.raises(PrunerStateError, match="already"):
                pruner.apply(model)
        with pytest.raises(PrunerStateError, match="already"):
            second.apply(model.model)
        assert hooks(model) == inside
    assert hooks(model) == before
    with pytest.raises(PrunerStateError, match="never applied"):
        first.remove(model)


def test_one_pruner_serves_several_models():
    pruner = Pruner("fastv", SCHEDULE)
    llava, qwen = build("llava"), build("qwen2_5_vl")
    before = hooks(llava), hooks(qwen)  # transformers has some of its own
    with pruner(llava), pruner(qwen), torch.no_grad():
        assert llava(**inputs("llava", [DEFAULT])).logits.isfinite().all()
        assert qwen(**inputs("qwen2_5_vl", [DEFAULT])).logits.isfinite().all()
    assert (hooks(llava), hooks(qwen)) == before


@pytest.mark.parametrize("mode", ["drop", "mask"])
def test_two_models_in_two_threads_do_not_meet(mode):
    models = [build("llava"), copy.deepcopy(_built("llava", 0))]
    schedules = [SCHEDULE, Schedule((1.0, 1.0, 0.75, 0.5))]
    x = inputs("llava", [DEFAULT])
    expected = []
    for model, schedule in zip(models, schedules, strict=True):
        with torch.no_grad(), Pruner("sparsevlm", schedule, mode=mode)(model):
            expected.append(model(**x).logits)
    wrong = []

    def work(model, schedule, want):
        with torch.no_grad():
            for _ in range(25):
                with Pruner("sparsevlm", schedule, mode=mode)(model):
                    if not torch.equal(model(**x).logits, want):
                        wrong.append(schedule)

    threads = [threading.Thread(target=work, args=a) for a in zip(models, schedules, expected, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_masked_attention_names_do_not_stay_in_a_config():
    model = build("gemma3", "eager")
    attention = model.model.language_model.layers[0].self_attn
    with Pruner("fastv", Schedule.full(LAYERS), mode="mask")(model):
        assert attention.config._attn_implementation.startswith(PREFIX)
    assert attention.config._attn_implementation == "eager"
    assert model.model.language_model.config._attn_implementation == "eager"
    assert model.config.get_text_config()._attn_implementation == "eager"


def test_survivors_without_record_is_an_error_that_says_what_to_do():
    model, x = build("llava"), inputs("llava", [DEFAULT])
    pruner = Pruner("fastv", SCHEDULE)
    with torch.no_grad(), pruner(model):
        model(**x)
        with pytest.raises(PrunerStateError, match="record=True"):
            pruner.survivors(model)
