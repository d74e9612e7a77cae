"""FLOPs of models whose layers are not all alike, against FlopCounterMode on every layer of a tiny twin."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig

from vispco import cost
from vispco.check.prompts import ONE, prompter_for
from vispco.check.twin import quiet, twin_of
from vispco.cost import Dimensions, KvBytes, Workload
from vispco.families import family_of


def counted_flops(model, inputs):
    """FLOPs of each decoder layer in one pass."""
    counters, found = [], []

    def enter(*_):
        counters.append(FlopCounterMode(display=False))
        counters[-1].__enter__()

    def leave(*_):
        counters[-1].__exit__(None, None, None)
        found.append(counters[-1].get_total_flops())

    layers = family_of(model).layers(model)
    handles = [
        h for layer in layers for h in (layer.register_forward_pre_hook(enter), layer.register_forward_hook(leave))
    ]
    with torch.no_grad():
        model(**inputs, use_cache=False)
    for handle in handles:
        handle.remove()
    return found


def priced(model, tokens):
    attention, pairs, network = cost.get("exact", model.config).sizes
    return [tokens * (a + n) + p * tokens**2 for a, p, n in zip(attention, pairs, network, strict=True)]


@pytest.mark.parametrize(
    ("kind", "without_attention"),
    [("qwen3_vl_moe", ()), ("kimi_k25", ()), ("gemma4", ()), ("llama4", ()), ("qwen3_5", (1,)), ("lfm2_vl", (1,))],
    ids=["experts", "latent attention", "shared keys", "dense experts", "linear attention", "convolution"],
)
def test_every_layer_costs_what_is_counted(kind, without_attention):
    with quiet():
        model = twin_of(kind, attention="eager")
        model.set_experts_implementation("eager")  # the counter does not know the grouped kernels
        inputs = prompter_for(model)([ONE])
    tokens = inputs["input_ids"].shape[1]
    found, expected = counted_flops(model, inputs), priced(model, tokens)
    for layer, (flops, price) in enumerate(zip(found, expected, strict=True)):
        if layer in without_attention:
            assert price < flops  # the recurrence, or the convolution, is not counted ...
        else:
            assert price == flops
    assert bool(Dimensions.from_config(model.config).not_counted) == bool(without_attention)  # ... and that is said


def test_shared_keys_are_kept_once_and_latent_ones_spread_out():
    with quiet():
        gemma, kimi = (Dimensions.from_config(twin_of(kind).config) for kind in ("gemma4", "kimi_k25"))
    assert [layer.entries > 0 for layer in gemma.layers] == [True, True, False, False]
    assert kimi.layers[0].entries == 4 * (16 + 8)  # heads x (keys + values)
    sample = Workload(num_visual=torch.tensor([10]), num_text=torch.tensor([5]))
    held = KvBytes(gemma).price(torch.full((1, 4), 10), sample)
    assert held.tolist() == [15 * sum(layer.entries for layer in gemma.layers) * gemma.dtype_bytes]


def test_experts_that_are_not_used_cost_nothing():
    few, many = (Dimensions.from_config(AutoConfig.for_model("mixtral", num_local_experts=n)) for n in (8, 16))
    router = 2 * few.hidden * 8
    assert many.layers[0].network - few.layers[0].network == router


def test_sizes_survive_a_file():
    with quiet():
        sizes = Dimensions.from_config(twin_of("kimi_k25").config)
    assert Dimensions.from_dict(sizes.to_dict()) == sizes
