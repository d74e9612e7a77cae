"""FLOPs per token of each decoder layer, counted from its modules, for models whose layers are not all alike.

Experts, latent attention, shared keys, gated or linear attention: the language model is built without weights (on torch's meta
device), and its matrices are counted. Every matrix is used once a token; of the experts, as many as a token is sent to.
"""

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Self

import torch
from torch import nn

from vispco.core.errors import UnsupportedModelError

EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
ROUTED = ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "top_k")
MIXERS = ("self_attn", "attention", "attn", "linear_attn", "conv", "mixer")
STATE_LAYERS = ("linear_attention", "conv", "mamba", "recurrent")
ALONE = ("moe", "mlp")
DENSE_EXPERTS = ("llama4_text",)
"""Models whose code runs every expert on every token and then weighs the results."""
NOT_COUNTED = "The recurrence and convolution of layers without attention are not counted; their projections are."


@dataclass(frozen=True)
class LayerSize:
    """FLOPs and cache of one decoder layer.

    mixer: FLOPs per token of the projections of its attention (or of what stands in its place). pairs: per pair of tokens.
    network: FLOPs per token of everything else. entries: numbers that its cache keeps for a token.
    """

    mixer: int
    pairs: int
    network: int
    entries: int

    def to_dict(self) -> dict[str, int]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, int]) -> Self:
        return cls(**{name: int(data[name]) for name in ("mixer", "pairs", "network", "entries")})


def layer_sizes(config: Any) -> tuple[LayerSize, ...]:
    """The size of each decoder layer, from the config of a vision-language model or of its language model."""
    text = config.get_text_config()
    kind: Any = type(text)
    return _counted(kind, text.to_json_string(use_diff=False))


@lru_cache(maxsize=16)
def _counted(kind: Any, written: str) -> tuple[LayerSize, ...]:
    from transformers import AutoModel  # noqa: PLC0415

    text = kind.from_dict(json.loads(written))
    try:
        with torch.device("meta"):
            model: Any = AutoModel.from_config(copy.deepcopy(text))
    except Exception as error:
        raise UnsupportedModelError(
            f"The language model {getattr(text, 'model_type', kind.__name__)!r} could not be built by itself to count its "
            f"FLOPs ({type(error).__name__}). Its schedules can be run, but not priced; give tokens by layer, not a budget."
        ) from error
    while not isinstance(getattr(model, "layers", None), nn.ModuleList):
        model = next(
            (m for n in ("model", "decoder", "language_model") if (m := getattr(model, n, None)) is not None), None
        )
        if model is None:
            raise UnsupportedModelError(f"The language model {kind.__name__} has no list of decoder `layers` to count.")
    kinds = getattr(text, "layer_types", None) or getattr(text, "layers_block_type", None) or []
    return tuple(
        _size(layer, text, kinds[i] if i < len(kinds) else "full_attention") for i, layer in enumerate(model.layers)
    )


def _size(layer: nn.Module, text: Any, kind: str) -> LayerSize:
    mixers = [m for name in MIXERS if isinstance(m := getattr(layer, name, None), nn.Module)]
    inside = {id(p) for mixer in mixers for p in mixer.parameters()}
    experts, routed = _number(text, EXPERTS), _number(text, ROUTED)
    if text.model_type in DENSE_EXPERTS:
        routed = experts
    mixer = sum(_per_token(mixer.parameters(), experts, routed) for mixer in mixers)
    network = _per_token((p for p in layer.parameters() if id(p) not in inside), experts, routed)
    pairs, entries = (0, 0) if kind in STATE_LAYERS + ALONE or not mixers else _attention(mixers[0], text)
    return LayerSize(mixer, pairs, network, entries)


def _attention(attention: Any, text: Any) -> tuple[int, int]:
    """(FLOPs per pair of tokens, numbers in the cache per token)."""
    heads = int(getattr(attention, "num_heads", None) or text.num_attention_heads)
    width = int(getattr(attention, "qk_head_dim", None) or attention.head_dim)
    values = int(getattr(attention, "v_head_dim", None) or width)
    if getattr(attention, "is_kv_shared_layer", False):
        entries = 0
    elif hasattr(attention, "kv_b_proj"):  # latent attention: keys and values are kept spread out
        entries = heads * (width + values)
    else:
        keys = getattr(attention, "k_proj", None)
        entries = 2 * (keys.out_features if isinstance(keys, nn.Linear) else text.num_key_value_heads * width)
    return 2 * heads * (width + values), entries


def _per_token(parameters: Iterable[nn.Parameter], experts: int, routed: int) -> int:
    """FLOPs per token of the matrices among some parameters."""
    total = 0
    for parameter in parameters:
        if parameter.dim() == 2:
            total += 2 * parameter.numel()
        elif parameter.dim() == 3 and experts and parameter.shape[0] == experts:
            total += 2 * parameter.numel() // experts * routed
    return total


def _number(text: Any, names: Iterable[str]) -> int:
    return next((value for name in names if isinstance(value := getattr(text, name, None), int) and value > 0), 0)
