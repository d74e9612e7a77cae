"""The sizes of a language model that its cost depends on, read from its transformers config."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

import torch

from vispco.errors import InvalidInputError, UnsupportedModelError

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
# Fields by which transformers' configs say that a layer has several feed-forward networks.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
DENSE_ATTENTION = ("full_attention", "sliding_attention")


@dataclass(frozen=True, kw_only=True)
class Dimensions:
    """Sizes of the decoder layers of one language model.

    windows: for each layer its sliding window in tokens, or None where attention is full.
    dtype_bytes: the size of one number of the KV cache.
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

    @classmethod
    def from_config(cls, config: Any, *, gated: bool | None = None, dtype: torch.dtype | None = None) -> Self:
        """From the config of a vision-language model, or of its language model.

        gated: whether the feed-forward network has a gate; needed only for a text model that is not known here.
        dtype: of the KV cache; default: the config's, else float32.
        """
        text = config.get_text_config()
        kind = str(getattr(text, "model_type", type(text).__name__))
        if any(getattr(text, field, None) for field in EXPERTS):
            raise UnsupportedModelError(
                f"The language model {kind!r} routes tokens to experts, and its cost is not a function of the number of "
                "tokens alone. Use a dense language model."
            )
        if gated is None:
            if kind not in GATED | PLAIN:
                raise UnsupportedModelError(
                    f"The language model {kind!r} is not known to `vispco.cost`: whether its feed-forward network has a "
                    f"gate is missing. Known: {', '.join(sorted(GATED | PLAIN))}. "
                    "If it is built like one of them, pass gated=True (gate, up and down matrices) or gated=False."
                )
            gated = kind in GATED
        hidden, heads = _size(text, "hidden_size"), _size(text, "num_attention_heads")
        given = dtype or getattr(text, "dtype", None) or getattr(config, "dtype", None) or torch.float32
        number = getattr(torch, given.removeprefix("torch.")) if isinstance(given, str) else given
        return cls(
            num_layers=_size(text, "num_hidden_layers"),
            hidden=hidden,
            heads=heads,
            kv_heads=getattr(text, "num_key_value_heads", None) or heads,
            head_dim=getattr(text, "head_dim", None) or hidden // heads,
            ffn=_size(text, "intermediate_size", "ffn_dim"),
            gated=gated,
            windows=_windows(text, kind),
            vocab=_size(text, "vocab_size"),
            dtype_bytes=number.itemsize,
        )

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        missing = [field.name for field in fields(cls) if field.name not in data]
        if missing:
            raise InvalidInputError(
                f"The sizes of a language model were given without {', '.join(missing)}. "
                "Give all that Dimensions.from_config(model.config).to_dict() holds."
            )
        return cls(**{**{field.name: data[field.name] for field in fields(cls)}, "windows": tuple(data["windows"])})

    def __post_init__(self) -> None:
        if len(self.windows) != self.num_layers:
            raise InvalidInputError(
                f"{len(self.windows)} windows were given for {self.num_layers} layers. Give one each."
            )


def _size(text: Any, *names: str) -> int:
    for name in names:
        value = getattr(text, name, None)
        if isinstance(value, int) and value > 0:
            return value
    raise UnsupportedModelError(
        f"The config {type(text).__name__} of the language model has no usable {' or '.join(names)}, which its cost needs."
    )


def _windows(text: Any, kind: str) -> tuple[int | None, ...]:
    """The sliding window of each layer, as transformers' own cache reads it from the config."""
    window = getattr(text, "sliding_window", None)
    types = getattr(text, "layer_types", None)
    if types is None:
        types = [DENSE_ATTENTION[window is not None]] * _size(text, "num_hidden_layers")
    strange = sorted(set(types) - set(DENSE_ATTENTION))
    if strange:
        raise UnsupportedModelError(
            f"The language model {kind!r} has layers of the kind {', '.join(strange)}. "
            f"Costs are known for {' and '.join(DENSE_ATTENTION)}."
        )
    return tuple(window if layer == "sliding_attention" else None for layer in types)
