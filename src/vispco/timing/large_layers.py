"""Layers of Qwen2.5-VL-3B's size, with random weights: what pruning saves where matrices are large, in a few seconds.

Small models hide it: the cost of starting operations, which no pruning shortens, is most of their time.
"""

import statistics
import time
from contextlib import nullcontext
from typing import Any

import torch

NAME = "Qwen2.5-VL-3B"
LAYERS, SIDE, TEXT = 2, 20, 64  # layers, sides of a picture in tokens, text tokens
BUDGET, ROUNDS = 0.5, 2
_IMAGE = 5


def build_large_layers(layers: int = LAYERS, seed: int = 0) -> Any:
    """A model of these layers, with a vision tower that is of no size."""
    from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration  # noqa: PLC0415

    torch.manual_seed(seed)
    text = {
        "vocab_size": 1000,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "hidden_size": 2048,
        "intermediate_size": 11008,
        "num_hidden_layers": layers,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    }
    vision = {"depth": 1, "hidden_size": 32, "intermediate_size": 32, "num_heads": 2, "out_hidden_size": 2048}
    config = Qwen2_5_VLConfig(text_config=text, vision_config=vision, image_token_id=_IMAGE, video_token_id=6)
    return Qwen2_5_VLForConditionalGeneration(config).eval()


def large_inputs(side: int = SIDE) -> dict[str, Any]:
    """A prompt with a picture of side x side tokens, whose features are made beforehand: what is timed is the language model."""
    from transformers.modeling_outputs import BaseModelOutputWithPooling  # noqa: PLC0415

    before, visual = 8, side * side
    ids = torch.full((1, visual + TEXT), _IMAGE)
    ids[0, :before] = torch.arange(20, 20 + before)
    ids[0, before + visual :] = torch.arange(100, 100 + TEXT - before)
    features = BaseModelOutputWithPooling(pooler_output=(torch.randn(visual, 2048),))
    return {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": (ids == _IMAGE).int(),
        "image_grid_thw": torch.tensor([[1, 2 * side, 2 * side]]),
        "mm_encoder_outputs": {"image": features},
        "logits_to_keep": 1,
        "use_cache": True,
    }


@torch.no_grad()
def time_large_layers(scorer: str = "divprune", rounds: int = ROUNDS) -> dict[str, float]:
    """Milliseconds of a prefill, unpruned and at half of its FLOPs, interleaved; the median of each and of their ratio."""
    from vispco.pruner.pruner_spec import PrunerSpec  # noqa: PLC0415

    model, inputs = build_large_layers(), large_inputs()
    pruner = PrunerSpec.choose(method=scorer, budget=BUDGET).resolve(model)
    seconds: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds + 1):  # the first warms up
        for pruned, taken in seconds.items():
            with pruner(model) if pruned else nullcontext():
                start = time.perf_counter()
                model(**inputs)
                taken.append(time.perf_counter() - start)
    whole, fewer = seconds[False][1:], seconds[True][1:]
    return {
        "budget": BUDGET,
        "unpruned_ms": 1e3 * statistics.median(whole),
        "pruned_ms": 1e3 * statistics.median(fewer),
        "speedup": statistics.median(a / b for a, b in zip(whole, fewer, strict=True)),
    }


def large_layers_text(found: dict[str, float]) -> str:
    """What it says about real models, and why a small one does not show it."""
    return (
        f"Large layers: {found['budget']:.0%} of the FLOPs come {found['speedup']:.2f} × as fast on this machine "
        f"({found['unpruned_ms']:.0f} ms become {found['pruned_ms']:.0f} ms; {LAYERS} layers of {NAME}'s size, random weights, "
        f"{SIDE * SIDE} visual tokens). The layers of shipped models are some hundred times smaller: most of their time goes into "
        "starting operations, which pruning does not shorten, so they gain less."
    )
