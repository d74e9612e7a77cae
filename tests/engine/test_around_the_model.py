"""What torch puts around a model: autocast, torch.compile, torch.utils.checkpoint."""

from __future__ import annotations

import copy
import gc
import logging
import warnings
from weakref import WeakKeyDictionary

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from transformers import LlavaForConditionalGeneration
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from tiny import DEFAULT, FIRST_CLASS, build, inputs
from vispco import Pruner, Schedule
from vispco.core.errors import PrunerStateError, UnsupportedModelError
from vispco.engine import safety
from vispco.engine.hooks import engine_on
from vispco.pruner.model_fingerprint import ModelFingerprint, OtherWeightsWarning

SCHEDULE = Schedule((1.0, 0.5, 0.5, 0.25))


# autocast


@pytest.fixture
def untrusted(monkeypatch):
    monkeypatch.setattr(safety, "_TRUSTED", WeakKeyDictionary())


@pytest.mark.usefixtures("untrusted")
@pytest.mark.parametrize("precision", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("family", FIRST_CLASS)
@torch.no_grad()
def test_a_model_is_read_under_autocast_in_its_first_pass(family, attention, mode, precision):
    """Rotary embeddings leave queries in float32, of which the attention function then rounds: no reason to refuse a model."""
    model, x = build(family, attention), inputs(family, [DEFAULT])
    with torch.autocast("cpu", dtype=precision), Pruner("fastv", SCHEDULE, mode=mode, record=True)(model):
        first = model(**x).logits
        assert len(safety._TRUSTED) == 1
        assert torch.equal(model(**x).logits, first)
    assert first.dtype == precision
    assert first.isfinite().all()


@pytest.mark.usefixtures("untrusted")
@torch.no_grad()
def test_a_model_that_adds_something_to_its_scores_is_refused_under_autocast_too(monkeypatch):
    model, plain = build("qwen2_5_vl", "sdpa"), ALL_ATTENTION_FUNCTIONS["sdpa"]

    def biased(module, query, *args, **options):
        return plain(module, query * 1.5, *args, **options)

    monkeypatch.setitem(ALL_ATTENTION_FUNCTIONS._global_mapping, "sdpa", biased)
    refused = pytest.raises(UnsupportedModelError, match="does not follow from its queries")
    with torch.autocast("cpu", dtype=torch.bfloat16), Pruner("fastv", SCHEDULE)(model), refused:
        model(**inputs("qwen2_5_vl", [DEFAULT]))


# torch.compile


@pytest.fixture
def fresh_dynamo():
    """As in a process in which nothing was compiled."""
    torch._logging.set_logs(all=logging.CRITICAL)
    torch._dynamo.reset()
    torch._dynamo.utils.counters.clear()
    yield
    torch._dynamo.reset()
    torch._logging.set_logs()


def text_of(model):
    return model.model.language_model


COMPILED = {
    "the model": lambda model: [model],
    "the module inside": lambda model: [model.model],
    "the language model": lambda model: [text_of(model)],
    "the layers": lambda model: list(text_of(model).layers),
}


@pytest.fixture
def shallow():
    """Two layers, so that it compiles in seconds."""
    config = copy.deepcopy(build("llava").config)
    config.text_config.num_hidden_layers, config.vision_config.num_hidden_layers = 2, 1
    config.vision_feature_layer = -1
    return LlavaForConditionalGeneration(config).eval()


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    ("part", "run_before"), [*((part, False) for part in COMPILED), ("the model", True), ("the layers", True)]
)
@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_a_compiled_forward_is_pruned_and_is_there_again_afterwards(shallow, part, run_before):
    x, pruner = inputs("llava", [DEFAULT]), Pruner("fastv", Schedule((1.0, 0.5)))
    whole = shallow(**x).logits
    with pruner(shallow):
        want = shallow(**x).logits
    modules = COMPILED[part](shallow)
    for module in modules:
        module.forward = torch.compile(module.forward, backend="eager")
    made = [module.forward for module in modules]
    if run_before:
        assert torch.equal(shallow(**x).logits, whole)
    with pruner(shallow):
        assert torch.equal(shallow(**x).logits, want)
    assert [module.forward for module in modules] == made
    assert torch.equal(shallow(**x).logits, whole)
    with pruner(shallow):
        assert torch.equal(shallow(**x).logits, want)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.filterwarnings("ignore")
@torch.no_grad()
def test_compiled_layers_inside_of_a_model_run_plain_while_it_is_pruned(shallow):
    x, pruner = inputs("llava", [DEFAULT]), Pruner("fastv", Schedule((1.0, 0.5)))
    with pruner(shallow):
        want = shallow(**x).logits
    in_place(shallow)
    with pruner(shallow):
        assert torch.equal(shallow(**x).logits, want)
        assert not torch._dynamo.utils.counters["frames"]


def in_place(model):
    for index, layer in enumerate(text_of(model).layers):
        text_of(model).layers[index] = torch.compile(layer, backend="eager")
    return model


WRAPPERS = {
    "torch.compile": lambda model: torch.compile(model, backend="eager"),
    "DataParallel": nn.DataParallel,
    "compiled layers": in_place,
}


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_wrapped_model_has_the_weights_of_the_model_inside(wrapper):
    model = copy.deepcopy(build("llava"))
    known = ModelFingerprint.of(model)
    wrapped = WRAPPERS[wrapper](model)
    assert ModelFingerprint.of(wrapped) == known
    with warnings.catch_warnings():
        warnings.simplefilter("error", OtherWeightsWarning)
        known.check(wrapped, "The run")
    with torch.no_grad():
        next(model.parameters()).add_(1.0)
    with pytest.warns(OtherWeightsWarning):
        known.check(wrapped, "The run")


# torch.utils.checkpoint


def checkpointed(model, x, *, reentrant):
    """Logits of one forward pass of which only the inputs are kept."""
    if not reentrant:
        return checkpoint(lambda **given: model(**given, use_cache=False).logits, use_reentrant=False, **x)
    one = torch.ones((), requires_grad=True)  # else nothing of it has a gradient
    return checkpoint(lambda one: model(**x, use_cache=False).logits * one, one, use_reentrant=True)


def gradients(model):
    found = [p.grad.clone() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    return found


def hooks_of(model):
    return [hook for module in model.modules() for hook in module._forward_pre_hooks.values()]


@pytest.mark.usefixtures("untrusted")
@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_a_checkpointed_pass_has_the_gradients_of_a_plain_one(family, mode, reentrant):
    """Also in the first pass of a model, which is checked; and where the same pruner was off and is on again."""
    model, x = build(family), inputs(family, [DEFAULT])
    pruner = Pruner("fastv", SCHEDULE, mode=mode)
    with pruner(model):
        checkpointed(model, x, reentrant=reentrant)[:, -1].sum().backward()
        got = gradients(model)
        model(**x).logits[:, -1].sum().backward()
        want = gradients(model)
        later = checkpointed(model, x, reentrant=reentrant)[:, -1].sum()
    with pruner(model):
        later.backward()
    for a, b, c in zip(got, want, gradients(model), strict=True):
        torch.testing.assert_close(a, b)
        torch.testing.assert_close(c, b)


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("mode", ["drop", "mask"])
def test_backward_through_a_checkpointed_pass_is_refused_without_its_pruner(mode, reentrant):
    """With use_reentrant=True it gave the gradients of the unpruned model, in silence."""
    model, x = build("llava"), inputs("llava", [DEFAULT])
    before = hooks_of(model)
    with Pruner("fastv", SCHEDULE, mode=mode)(model):
        loss = checkpointed(model, x, reentrant=reentrant)[:, -1].sum()
    with pytest.raises(PrunerStateError, match=r"inside of the `with pruner\(model\)` block"):
        loss.backward()
    with Pruner("random", SCHEDULE)(model), pytest.raises(PrunerStateError, match="Call backward"):
        loss.backward()
    model.zero_grad()
    plain = checkpointed(model, x, reentrant=reentrant)[:, -1].sum()  # an unpruned pass is none of its business
    plain.backward()
    got = gradients(model)
    model(**x).logits[:, -1].sum().backward()
    for a, b in zip(got, gradients(model), strict=True):
        torch.testing.assert_close(a, b)
    assert copy.deepcopy(model)(**x).logits.isfinite().all()
    del loss, plain
    gc.collect()
    assert hooks_of(model) == before
    assert engine_on(model.model) is None
