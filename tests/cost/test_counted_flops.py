"""`exact` FLOPs are those that torch counts, to the digit: known text models, real sizes, pruned and not."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import AutoConfig, AutoModel, Gemma3ForConditionalGeneration, LlavaForConditionalGeneration
from transformers import Qwen2_5_VLForConditionalGeneration as Qwen
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLTextModel
from transformers.models.qwen2_vl.modeling_qwen2_vl import Qwen2VLTextModel
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextModel

from vispco.core.schedule import Schedule
from vispco.cost import Dimensions, Exact, Workload
from vispco.cost.dimensions import GATED, PLAIN

TEXT_CLASSES = {
    "qwen2_vl_text": Qwen2VLTextModel,
    "qwen2_5_vl_text": Qwen2_5_VLTextModel,
    "qwen3_vl_text": Qwen3VLTextModel,
}
MODELS = {"qwen2_5_vl": Qwen, "llava": LlavaForConditionalGeneration, "gemma3": Gemma3ForConditionalGeneration}


def tiny(kind, **more):
    """A tiny config of a text model; eager, because torch does not count the fused attention of the CPU."""
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 64, "head_dim": 8}
    if kind not in {"opt", "gpt_neox"}:
        sizes["num_key_value_heads"] = 2
    if "_vl" in kind:
        more["rope_parameters"] = {"rope_type": "default", "mrope_section": [1, 1, 2], "rope_theta": 1e4}
    ffn = {"ffn_dim": 48, "word_embed_proj_dim": 32} if kind == "opt" else {"intermediate_size": 48}
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
    return AutoConfig.for_model(kind, **sizes, **ffn, **tokens, **more, attn_implementation="eager")


@pytest.mark.parametrize("kind", sorted(GATED | PLAIN))
def test_every_known_text_model(kind):
    config = tiny(kind)
    model = TEXT_CLASSES[kind](config) if kind in TEXT_CLASSES else AutoModel.from_config(config)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        model.eval()(input_ids=torch.ones(2, 20, dtype=torch.long), use_cache=False)
    exact = Exact(Dimensions.from_config(config))
    assert counter.get_total_flops() == 2 * int(exact.full(Workload(20, 0)))


def test_sliding_layers_cost_as_much_as_full_ones():
    config = tiny("gemma3_text", sliding_window=4, layer_types=["sliding_attention", "full_attention"])
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        AutoModel.from_config(config).eval()(input_ids=torch.ones(1, 20, dtype=torch.long), use_cache=False)
    assert Dimensions.from_config(config).windows == (4, None)
    assert counter.get_total_flops() == int(Exact(Dimensions.from_config(config)).full(Workload(20, 0)))


def on_meta(config):
    """The decoder layers of a vision-language model at its real size, without weights."""
    with torch.device("meta"):
        model = MODELS[config.model_type](config).eval()
    return model.model.language_model.layers


def run(layer, N, config, part):
    """One layer, its attention or its feed-forward network on N tokens of the meta device."""
    text = config.get_text_config()
    hidden = torch.empty(1, N, text.hidden_size, device="meta")
    if part == "mlp":
        layer.mlp(hidden)
        return
    width = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    angles = torch.empty(1, N, width, device="meta")
    (layer if part == "layer" else layer.self_attn)(hidden, position_embeddings=(angles, angles), attention_mask=None)


def test_real_sizes_pruned_and_not(real_config):
    exact = Exact(Dimensions.from_config(real_config))
    L, text, visual = exact.num_layers, 61, 1250  # longer than Gemma's window
    layers = on_meta(real_config)
    for schedule in (Schedule.full(L), Schedule.stages({2: 0.5, L // 2: 0.15, L - 2: 0.0}, L)):
        counts = schedule.counts([visual])
        entering = (counts[0] + text).tolist()
        with torch.no_grad(), FlopCounterMode(display=False) as counter:
            for layer, N in zip(layers, entering, strict=True):
                run(layer, N, real_config, "layer")
        assert counter.get_total_flops() == int(exact.price(counts, Workload(text, visual))[0])
        assert counter.get_total_flops() == float(exact.relaxed(counts[0].double() / visual, Workload(text, visual)))

    leaving = [*entering[1:], entering[-1]]
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        for layer, N, M in zip(layers, entering, leaving, strict=True):
            run(layer, N, real_config, "attention")
            run(layer, M, real_config, "mlp")
    assert counter.get_total_flops() == int(exact.price(counts, Workload(text, visual, "mid"))[0])
