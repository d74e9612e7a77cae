"""The sizes of a language model that its cost depends on, read from its transformers config.

Where its layers are not all alike (experts, latent attention, shared keys, gated or linear attention), the language model is
built without weights (on torch's meta device), and the matrices of each layer are counted. Every matrix is used once a
token; of the experts, as many as a token is sent to.
"""

import copy
import json
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from functools import lru_cache
from typing import Any, Self

import torch
from torch import nn

from vispco.core.errors import InvalidInputError, UnsupportedModelError

# Text models of transformers whose feed-forward network has three matrices (gate, up, down) ...
GATED = frozenset(
    {
        *("llama", "mistral", "ministral", "ministral3", "olmo2", "smollm3", "granite", "stablelm", "phi3", "glm"),
        *("qwen2", "qwen2_vl_text", "qwen2_5_vl_text", "qwen3", "qwen3_vl_text"),
        *("gemma", "gemma2", "gemma3_text", "cohere", "cohere2"),
    }
)
# ... and those where it has two.
PLAIN = frozenset(("opt", "phi", "gpt_neox", "starcoder2"))
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_ROUTED = ("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts", "top_k")
_MIXERS = ("self_attn", "attention", "attn", "linear_attn", "conv", "mixer")
_WITHOUT_ATTENTION = ("linear_attention", "conv", "mamba", "recurrent", "moe", "mlp")  # kinds of layers
_DENSE_EXPERTS = ("llama4_text",)
"""Models whose code runs every expert on every token and then weighs the results."""
_NOT_COUNTED = "The recurrence and convolution of layers without attention are not counted; their projections are."


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


@dataclass(frozen=True, kw_only=True)
class VisionSize:
    """Sizes of a vision tower that reading it depends on.

    width: of its states, and of all heads together. patches: of one visual token. class_tokens: before the patches of a picture.
    """

    width: int
    heads: int
    patches: int = 1
    class_tokens: int = 0

    @classmethod
    def from_config(cls, config: Any) -> Self | None:
        """From the config of a vision-language model; None where it does not describe a tower in the usual words."""
        vision: Any = getattr(config, "vision_config", None)
        width = getattr(vision, "embed_dim", None) or getattr(vision, "hidden_size", None)
        heads = getattr(vision, "num_heads", None) or getattr(vision, "num_attention_heads", None)
        if not isinstance(width, int) or not isinstance(heads, int):
            return None
        patches = int(getattr(vision, "spatial_merge_size", 1)) ** 2
        tokens = getattr(config, "mm_tokens_per_image", None)
        if tokens:
            patches = (vision.image_size // vision.patch_size) ** 2 // int(tokens)
        kind = str(getattr(vision, "model_type", ""))
        return cls(width=width, heads=heads, patches=patches, class_tokens=int(kind.startswith("clip")))


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """Sizes of the decoder layers of one language model.

    windows: for each layer its sliding window in tokens, or None where attention is full.
    dtype_bytes: the size of one number of the KV cache. layers: what each layer costs, where they are not all alike.
    vision: of the tower, for scorers that read it; None if it is not known.
    """

    num_layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    gated: bool
    windows: tuple[int | None, ...]
    vocab: int
    dtype_bytes: int
    layers: tuple[LayerSize, ...] | None = None
    vision: VisionSize | None = None

    @classmethod
    def from_config(cls, config: Any, *, gated: bool | None = None, dtype: torch.dtype | None = None) -> Self:
        """From the config of a vision-language model, or of its language model.

        gated: whether the feed-forward network has a gate; a text model that is not known here is counted layer by layer.
        dtype: of the KV cache; default: the config's, else float32.
        """
        text = config.get_text_config()
        kind = str(getattr(text, "model_type", type(text).__name__))
        layers = None
        if gated is None:
            plain = kind in GATED | PLAIN and not any(getattr(text, field, None) for field in _EXPERTS)
            layers = None if plain else _layer_sizes(text.__class__, text.to_json_string(use_diff=False))
            gated = kind not in PLAIN
        hidden, heads = _size(text, "hidden_size"), _size(text, "num_attention_heads")
        given = dtype or getattr(text, "dtype", None) or getattr(config, "dtype", None) or torch.float32
        number = getattr(torch, given.removeprefix("torch.")) if isinstance(given, str) else given
        head_dim = text.to_dict().get("head_dim")  # a config whose layers differ does not tell it as an attribute
        # the sliding window of each layer, as transformers' own cache reads it
        window, chunk = getattr(text, "sliding_window", None), getattr(text, "attention_chunk_size", None)
        kinds = getattr(text, "layer_types", None)
        if kinds is None:
            kinds = ["full_attention" if window is None else "sliding_attention"] * _size(text, "num_hidden_layers")
        windows = {"sliding_attention": window, "chunked_attention": chunk}
        return cls(
            num_layers=_size(text, "num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=getattr(text, "num_key_value_heads", None) or heads,
            head_dim=head_dim if isinstance(head_dim, int) else hidden // heads,
            ffn=_size(text, "intermediate_size", "ffn_dim", "moe_intermediate_size"),
            gated=gated,
            windows=tuple(windows.get(each) for each in kinds),
            vocab=_size(text, "vocab_size"),
            dtype_bytes=number.itemsize,
            layers=layers,
            vision=VisionSize.from_config(config),
        )

    @property
    def not_counted(self) -> str:
        """A sentence on what the FLOPs of these layers leave out; empty if nothing."""
        states = any(size.mixer and not size.pairs for size in self.layers or ())
        return _NOT_COUNTED if states else ""

    def to_dict(self) -> dict[str, Any]:
        data = asdict(self)
        return {name: value for name, value in data.items() if value is not None}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        missing = [field.name for field in fields(cls) if field.name not in data and field.default is MISSING]
        if missing:
            raise InvalidInputError(
                f"The sizes of a language model were given without {', '.join(missing)}. "
                "Give all that Dimensions.from_config(model.config).to_dict() holds."
            )
        layers = data.get("layers")
        known = {field.name: data[field.name] for field in fields(cls) if field.name in data}
        known["windows"] = tuple(data["windows"])
        known["layers"] = (
            None
            if layers is None
            else tuple(LayerSize(**{each.name: int(size[each.name]) for each in fields(LayerSize)}) for size in layers)
        )
        known["vision"] = None if data.get("vision") is None else VisionSize(**data["vision"])
        return cls(**known)

    def __post_init__(self) -> None:
        if len(self.windows) != self.num_layers:
            raise InvalidInputError(
                f"{len(self.windows)} windows were given for {self.num_layers} layers. Give one each."
            )


def _size(text: Any, *names: str) -> int:
    found = _number(text, names)
    if not found:
        raise UnsupportedModelError(
            f"The config {type(text).__name__} of the language model has no usable {' or '.join(names)}, which its cost needs."
        )
    return found


def _number(text: Any, names: Iterable[str]) -> int:
    """The first of some fields of a config that is a number above 0; 0 where none is."""
    return next((value for name in names if isinstance(value := getattr(text, name, None), int) and value > 0), 0)


@lru_cache(maxsize=16)
def _layer_sizes(kind: Any, written: str) -> tuple[LayerSize, ...]:
    """The size of each decoder layer of a language model. kind: the class of its config. written: the config as JSON."""
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
        _layer_size(layer, text, kinds[i] if i < len(kinds) else "full_attention")
        for i, layer in enumerate(model.layers)
    )


def _layer_size(layer: nn.Module, text: Any, kind: str) -> LayerSize:
    mixers = [m for name in _MIXERS if isinstance(m := getattr(layer, name, None), nn.Module)]
    inside = {id(p) for mixer in mixers for p in mixer.parameters()}
    experts, routed = _number(text, _EXPERTS), _number(text, _ROUTED)
    if text.model_type in _DENSE_EXPERTS:
        routed = experts
    mixer = sum(_per_token(mixer.parameters(), experts, routed) for mixer in mixers)
    network = _per_token((p for p in layer.parameters() if id(p) not in inside), experts, routed)
    if kind in _WITHOUT_ATTENTION or not mixers:
        return LayerSize(mixer, 0, network, 0)
    attention: Any = mixers[0]
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
    return LayerSize(mixer, 2 * heads * (width + values), network, entries)


def _per_token(parameters: Iterable[nn.Parameter], experts: int, routed: int) -> int:
    """FLOPs per token of the matrices among some parameters."""
    total = 0
    for parameter in parameters:
        if parameter.dim() == 2:
            total += 2 * parameter.numel()
        elif parameter.dim() == 3 and experts and parameter.shape[0] == experts:
            total += 2 * parameter.numel() // experts * routed
    return total
