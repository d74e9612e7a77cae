"""Models made from one config object are pruned as if each had its own, in any order, and the config is never written to."""

from __future__ import annotations

import copy
import pickle
import threading
from functools import cache
from itertools import permutations

import pytest
import torch

from tiny import BUILDERS, DEFAULT, FIRST_CLASS, build, inputs
from vispco import Pruner, Schedule
from vispco.engine.attention import PREFIX, _TappedConfig
from vispco.engine.vision import encode_pictures
from vispco.scorers import Chain

CURVES = (Schedule((1.0, 0.5, 0.5, 0.25)), Schedule((1.0, 1.0, 0.75, 0.5)), Schedule((1.0, 0.25, 0.25, 0.25)))
MODES = {"drop": ("drop",) * 3, "mask": ("mask",) * 3, "both": ("mask", "drop", "mask")}


@cache
def models(family, shared, number=3):
    """Models with other weights each: `shared` is 'config' (one object), 'sub-configs' (of several) or 'nothing'."""
    first = BUILDERS[family]()
    made = []
    for seed in range(number):
        torch.manual_seed(seed)
        config = first.config if shared == "config" else copy.deepcopy(first.config)
        if shared == "sub-configs":
            config.text_config, config.vision_config = first.config.text_config, first.config.vision_config
        model = type(first)(config).eval()
        torch.manual_seed(seed)  # the same weights, whatever is shared
        for parameter in model.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        made.append(model)
    return made


def pruners(modes, scorer="fastv"):
    return [Pruner(scorer, curve, mode=mode) for curve, mode in zip(CURVES, MODES[modes], strict=True)]


@torch.no_grad()
def logits(model, x):
    return model(**x).logits


@cache
@torch.no_grad()
def expected(family, modes, scorer="fastv"):
    """What each model gives without and with its pruner, where no config is shared."""
    x, found = inputs(family, [DEFAULT]), []
    for model, pruner in zip(models(family, "nothing"), pruners(modes, scorer), strict=False):
        whole = logits(model, x)
        with pruner(model):
            found.append((whole, logits(model, x)))
        assert not torch.equal(*found[-1])
    return found


def configs(model):
    return {id(module.config): module.config for module in model.modules() if hasattr(module, "config")}


def state(model):
    return {
        key: (type(config), config._attn_implementation, config.to_dict()) for key, config in configs(model).items()
    }


def orders(number):
    """Every order in which so many pruners can be put on and taken off: 'apply' before 'remove', else any."""
    events = [(n, event) for n in range(number) for event in ("apply", "remove")]
    for order in permutations(events):
        if all(order.index((n, "apply")) < order.index((n, "remove")) for n in range(number)):
            yield order


def run(order, several, chosen, x, wanted):
    """Carry out an order; after each event every model gives what it gives alone."""
    on = set()
    for n, event in order:
        getattr(chosen[n], event)(several[n])
        on = on | {n} if event == "apply" else on - {n}
        for m, model in enumerate(several):
            assert torch.equal(logits(model, x), wanted[m][m in on]), (order, (n, event), m)


@pytest.mark.parametrize("modes", MODES)
@pytest.mark.parametrize("shared", ["config", "sub-configs"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_two_models_on_one_config_are_pruned_as_if_each_had_its_own(family, shared, modes):
    several, x, wanted = models(family, shared)[:2], inputs(family, [DEFAULT]), expected(family, modes)
    before = [state(model) for model in several]
    for order in orders(2):
        run(order, several, pruners(modes), x, wanted)
        assert [state(model) for model in several] == before


@pytest.mark.parametrize("modes", MODES)
def test_three_models_on_one_config_in_every_order(modes):
    several, x, wanted = models("llava", "config"), inputs("llava", [DEFAULT]), expected("llava", modes)
    before = [state(model) for model in several]
    for order in orders(3):
        run(order, several, pruners(modes), x, wanted)
    assert [state(model) for model in several] == before


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_models_that_share_the_config_of_their_tower_are_read_apart(family):
    several, x = models(family, "config")[:2], inputs(family, [DEFAULT])
    wanted = expected(family, "drop", "visionzip")
    for order in orders(2):
        run(order, several, pruners("drop", "visionzip"), x, wanted)


@pytest.mark.parametrize("modes", ["drop", "mask"])
def test_models_on_one_config_do_not_meet_in_threads(modes):
    several, x, wanted = models("llava", "config"), inputs("llava", [DEFAULT]), expected("llava", modes)
    before = [state(model) for model in several]
    wrong, chosen = [], pruners(modes)

    def work(n):
        for turn in range(20):
            with chosen[n](several[n]):
                if not torch.equal(logits(several[n], x), wanted[n][1]):
                    wrong.append((n, turn))
            if not torch.equal(logits(several[n], x), wanted[n][0]):
                wrong.append((n, turn))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    assert [state(model) for model in several] == before


@pytest.mark.parametrize("mode", ["drop", "mask"])
@pytest.mark.parametrize("family", FIRST_CLASS)
def test_the_config_itself_is_never_written_to(family, mode):
    """Not even inside of the block: only what an attention module sees of it leads to the pruner."""
    model = build(family)
    before = state(model)
    attention = model.model.language_model.layers[0].self_attn
    plain = attention.config
    with Pruner("fastv", CURVES[0], mode=mode)(model):
        assert attention.config._attn_implementation == PREFIX + "sdpa"
        assert attention.config.hidden_size == plain.hidden_size
        assert plain._attn_implementation == model.config.get_text_config()._attn_implementation == "sdpa"
    assert attention.config is plain
    assert state(model) == before


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_an_attention_function_chosen_inside_the_block_is_pruned_too_and_stays_afterwards(family):
    """The new name led past the pruner, which then masked nothing."""
    model, x = build(family), inputs(family, [DEFAULT])
    for mode in ("drop", "mask"):
        model.set_attn_implementation("eager")
        with Pruner("fastv", CURVES[0], mode=mode)(model):
            wanted = logits(model, x)
        model.set_attn_implementation("sdpa")
        with Pruner("fastv", CURVES[0], mode=mode)(model):
            model.set_attn_implementation("eager")
            assert torch.equal(logits(model, x), wanted)
        assert model.config.get_text_config()._attn_implementation == "eager"


@pytest.mark.parametrize("family", FIRST_CLASS)
def test_masking_a_model_with_flash_attention_leaves_its_config_to_the_others(family):
    """Masking runs sdpa in place of flash attention, whose masks have no rows. No kernel of flash attention is needed for it."""
    alone, x = models(family, "config")[0], inputs(family, [DEFAULT])
    text = alone.config.get_text_config()
    pruner = Pruner("fastv", CURVES[0], mode="mask")
    text._attn_implementation_internal = "flash_attention_2"
    try:
        with pruner(alone):
            got = logits(alone, x)
            assert text._attn_implementation == "flash_attention_2"
        assert state(alone)[id(text)][1] == "flash_attention_2"
    finally:
        text._attn_implementation_internal = "sdpa"
    assert torch.equal(got, expected(family, "mask")[0][1])


def test_pictures_are_encoded_apart_while_a_pruner_reads_the_tower():
    """Its tap on the tower is there again afterwards."""
    model, x = models("llava", "nothing")[0], inputs("llava", [DEFAULT])
    _, wanted = expected("llava", "drop", "visionzip")[0]
    pruner = pruners("drop", "visionzip")[0]
    with pruner(model), torch.no_grad():
        assert encode_pictures(model, x, Chain.of("visionzip").needs_vision)["image"] is not None
        assert torch.equal(logits(model, x), wanted)


def test_a_copy_of_an_attention_module_inside_the_block_has_a_plain_config():
    model = build("llava")
    attention = model.model.language_model.layers[0].self_attn
    with Pruner("fastv", CURVES[0])(model):
        for made in (copy.deepcopy(attention).config, pickle.loads(pickle.dumps(attention.config))):  # noqa: S301 - made here
            assert not isinstance(made, _TappedConfig)
            assert made.to_dict() == model.config.text_config.to_dict()
            assert made._attn_implementation == "sdpa"
