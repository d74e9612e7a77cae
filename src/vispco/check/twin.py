"""A tiny random twin of any transformers vision-language config: the same classes and kinds of layers, a few thousand weights.

Sizes are made small by the names that transformers' configs use for them. What one class needs besides is a row in
`overrides.yaml`.
"""

import copy
import json
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from transformers import PreTrainedConfig, PreTrainedModel, logging
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES

from vispco.core.errors import UnsupportedModelError, VispcoError
from vispco.families.family import ALONE_KINDS, MIXING_KINDS
from vispco.families.unserved import NO_VISUAL_TOKENS

OVERRIDES: dict[str, dict[str, Any]] = yaml.safe_load(
    Path(__file__).with_name("overrides.yaml").read_text(encoding="utf-8")
)
LAYERS, WIDTH, VOCAB = 4, 32, 96
PAD, IMAGE = 0, 5
_TOKENS = {"pad_token": PAD, "bos_token": 1, "eos_token": 2, "image_token": IMAGE, "video_token": 6}
_FIRST_OTHER = 8  # special tokens that are neither pictures nor videos
FIRST_WORD = 48
_MOST_WEIGHTS = 40_000_000
_ROTARY = 8  # dimensions of a head that are rotated

# The size that a field of a config gets in a language model, ...
_TEXT_SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "n_embd", "d_model", "word_embed_proj_dim"), WIDTH),
    **dict.fromkeys(("intermediate_size", "ffn_dim", "intermediate_size_mlp", "dense_intermediate_size"), 48),
    **dict.fromkeys(("moe_intermediate_size", "shared_expert_intermediate_size", "shared_intermediate_size"), 16),
    **dict.fromkeys(("moe_shared_expert_intermediate_size", "expert_intermediate_size"), 16),
    **dict.fromkeys(("num_attention_heads", "num_heads", "n_head"), 4),
    **dict.fromkeys(("n_routed_experts", "num_experts", "num_local_experts", "moe_num_experts"), 4),
    **dict.fromkeys(("num_experts_per_tok", "moe_topk", "moe_k", "top_k_experts"), 2),
    **dict.fromkeys(
        ("n_group", "topk_group", "moe_num_shared_experts", "n_shared_experts", "first_k_dense_replace"), 1
    ),
    **dict.fromkeys(("kv_lora_rank", "q_lora_rank"), 16),
    **dict.fromkeys(("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim", "index_head_dim"), 8),
    **dict.fromkeys(("linear_key_head_dim", "linear_value_head_dim", "mamba_head_dim", "ssm_state_size"), 8),
    **dict.fromkeys(("linear_num_key_heads", "index_n_heads"), 2),
    **dict.fromkeys(("linear_num_value_heads", "mamba_num_heads"), 4),
    **dict.fromkeys(("hidden_size_per_layer_input", "laurel_rank"), 8),
    **dict.fromkeys(("num_hidden_layers", "n_layer", "num_layers"), LAYERS),
    **dict.fromkeys(("sliding_window", "attention_chunk_size"), 64),
    **dict.fromkeys(("vocab_size", "vocab_size_per_layer_input"), VOCAB),
    "num_kv_shared_layers": 2,
    "num_nextn_predict_layers": 0,
    "index_topk": 64,
    "max_position_embeddings": 512,
}
# ... and elsewhere: vision towers, projectors, audio towers.
_OTHER_SIZES: dict[str, int] = {
    **dict.fromkeys(("hidden_size", "embed_dim", "vision_hidden_size", "d_model"), 16),
    **dict.fromkeys(
        ("intermediate_size", "mlp_dim", "encoder_ffn_dim", "projector_hidden_size", "projection_hidden_size"), 16
    ),
    **dict.fromkeys(("num_attention_heads", "num_heads", "num_key_value_heads", "encoder_attention_heads"), 2),
    **dict.fromkeys(("num_hidden_layers", "depth", "encoder_layers", "num_layers"), 2),
    **dict.fromkeys(("out_hidden_size", "text_hidden_size", "output_dim", "projector_output_dim"), WIDTH),
    "image_size": 16,
    "patch_size": 4,
    "num_position_embeddings": 16,
    "num_patches": 16,
    "vocab_size": VOCAB,
    "window_size": 16,
    "head_dim": 8,
}


def classes() -> dict[str, str]:
    """{model_type: name of the class} of transformers' image-text-to-text models."""
    return {kind: str(name) for kind, name in MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES.items()}


@contextmanager
def quiet() -> Iterator[None]:
    """Without transformers' remarks about tiny configs."""
    before = logging.get_verbosity()
    logging.set_verbosity_error()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            yield
        finally:
            logging.set_verbosity(before)


def _twin_config(config: PreTrainedConfig, changes: Mapping[str, Any]) -> PreTrainedConfig:
    """A config of the same class whose model has about a million weights or fewer; `changes` are made at the end."""
    data = json.loads(json.dumps(config.to_dict(), default=str))
    _shrink(data, root=True)
    _number_tokens(data, {})
    odd = OVERRIDES.get(config.model_type, {})
    _merge(data, copy.deepcopy(odd.get("config", {})))
    _merge(data, copy.deepcopy(dict(changes)))
    for key in ("architectures", "transformers_version", "_name_or_path", "quantization_config"):
        data.pop(key, None)
    small = CONFIG_MAPPING[config.model_type](**{k: v for k, v in data.items() if k != "model_type"})
    for name, given in odd.get("replace", {}).items():
        part = CONFIG_MAPPING[given["model_type"]](**{k: v for k, v in given.items() if k != "model_type"})
        object.__setattr__(small, name, part)
    return small


def twin_of(
    config: PreTrainedConfig | str, changes: Mapping[str, Any] | None = None, *, attention: str = "sdpa"
) -> PreTrainedModel:
    """A tiny random model of the class that a config, or a `model_type`, belongs to."""
    from transformers import AutoModelForImageTextToText  # noqa: PLC0415 - it costs a second

    given = CONFIG_MAPPING[config]() if isinstance(config, str) else config
    small = _twin_config(given, changes or {})
    model_class = AutoModelForImageTextToText._model_mapping[type(small)]  # noqa: SLF001 - the only public way loads weights
    with torch.device("meta"):
        weights = sum(p.numel() for p in model_class(copy.deepcopy(small)).parameters())
    if weights > _MOST_WEIGHTS:
        raise UnsupportedModelError(
            f"The tiny twin of {model_class.__name__} would have {weights:,} weights: the sizes in its config are not known "
            "to vispco. Give the real weights instead of the config alone."
        )
    torch.manual_seed(0)
    model: PreTrainedModel = model_class(small)
    # Weights so large that attention prefers some tokens, and no part that is zero, which would hide mistakes.
    for name, parameter in model.named_parameters():
        with torch.no_grad():
            if not parameter.is_floating_point():
                continue
            if parameter.dim() > 1:
                fan = parameter.shape[-1] if parameter.dim() == 2 else parameter[0].numel() / parameter.shape[1]
                spread = 0.5 if "embed" in name else min(1.2 / max(fan, 1) ** 0.5, 0.5)
                parameter.normal_(std=spread)
            elif "bias" in name or bool((parameter == 0).all()):
                parameter.normal_(std=0.1)
    try:
        model.set_attn_implementation(attention)
    except ValueError:  # some classes have eager attention only
        model.set_attn_implementation("eager")
    return model.eval()


def _shrink(data: dict[str, Any], *, root: bool = False, text: bool | None = None) -> None:
    is_text = "vocab_size" in data and not root if text is None else text
    if root and "text_config" not in data and "llm_config" not in data and "thinker_config" not in data:
        is_text = True
    sizes = _TEXT_SIZES if is_text else _OTHER_SIZES
    if is_text:
        _pick_layers(data)
        _size_heads(data)
    for key, value in list(data.items()):
        if isinstance(value, dict) and "model_type" in value:
            other = any(word in key for word in ("vision", "audio", "qformer", "vq"))
            _shrink(value, text=not other and "vocab_size" in value)
        elif key in sizes and isinstance(value, int) and not isinstance(value, bool):
            data[key] = min(value, sizes[key]) if key != "hidden_size" else sizes[key]
        elif key in sizes and isinstance(value, list) and all(isinstance(v, int) for v in value):
            data[key] = [min(v, sizes[key]) for v in value]
        elif key == "deepstack_visual_indexes" and value:
            data[key] = [0, 1]
        elif key == "initializer_range":
            data[key] = 0.1


def _pick_layers(data: dict[str, Any]) -> None:
    """Four layers with as many kinds of layers among them as fit, in their order."""
    total = data.get("num_hidden_layers")
    if not isinstance(total, int):
        return
    lists = {k: v for k, v in data.items() if isinstance(v, list) and len(v) == total and total > 3}
    kinds: dict[Any, int] = {}
    for i in range(total):
        kinds.setdefault(tuple(str(v[i]) for v in lists.values()), i)
    chosen = _hybrid_layers(data) or sorted(kinds.values())[:LAYERS]
    chosen = sorted([*chosen, *[i for i in range(total) if i not in chosen][: LAYERS - len(chosen)]])
    for key, value in lists.items():
        data[key] = [value[i] for i in chosen]
    indexes = ("moe_layers", "full_attn_idxs", "rope_scaling_layers", "cross_attention_layers")
    for key in indexes:
        if isinstance(data.get(key), list) and key not in lists:
            data[key] = [place for place, i in enumerate(chosen) if i in data[key]]
    per_layer = data.get("per_layer_config")
    if isinstance(per_layer, Mapping) and per_layer:
        by_number = {int(k): v for k, v in per_layer.items()}
        data["per_layer_config"] = {
            str(place): {k: 2 * _ROTARY if k == "head_dim" else v for k, v in by_number[i].items()}
            for place, i in enumerate(chosen)
            if i in by_number
        }


def _hybrid_layers(data: Mapping[str, Any]) -> list[int]:
    """For a mixture of attention and other layers: one with attention, one of the other kind, then two with attention."""
    types = data.get("layer_types") or data.get("layers_block_type") or []
    others = [i for i, kind in enumerate(types) if kind in MIXING_KINDS]
    attention = [i for i, kind in enumerate(types) if kind not in MIXING_KINDS + ALONE_KINDS]
    if not others or len(attention) < 3:
        return []
    between = [i for i in others if i > attention[0]]
    return sorted([attention[0], *between[:1], *[i for i in attention if i > between[0]][:2]]) if between else []


def _size_heads(data: dict[str, Any]) -> None:
    heads, kv = data.get("num_attention_heads"), data.get("num_key_value_heads")
    rope = data.get("rope_parameters") or {}
    groups = [rope, *[v for v in rope.values() if isinstance(v, dict)]] if isinstance(rope, dict) else []
    factors = [g["partial_rotary_factor"] for g in groups if g.get("partial_rotary_factor")]
    factor = min(factors, default=data.get("partial_rotary_factor") or 1.0)
    for group in groups:
        if "mrope_section" in group:
            group["mrope_section"] = [2, 1, 1]
    if isinstance(heads, int) and isinstance(kv, int):
        data["num_key_value_heads"] = 4 if kv == heads else 2 if kv > 1 else 1
    if isinstance(data.get("head_dim"), int):
        data["head_dim"] = round(_ROTARY / factor)


def _number_tokens(data: dict[str, Any], known: dict[str, int]) -> None:
    """Give special tokens ids inside the small vocabulary, the same name the same id everywhere."""
    others = ("im_start_id", "im_end_id", "im_newline_id")
    for key, value in data.items():
        if isinstance(value, dict):
            _number_tokens(value, known)
        elif key.endswith(("_token_id", "_token_index", "_patch_id")) or key in others:
            name = key.removesuffix("_id").removesuffix("_index")
            if name in _TOKENS:
                data[key] = _TOKENS[name]
            elif value is not None:
                known.setdefault(name, _FIRST_OTHER + len(known))
                data[key] = known[name]


def _merge(data: dict[str, Any], changes: Mapping[str, Any]) -> None:
    for key, value in changes.items():
        if isinstance(value, Mapping) and isinstance(data.get(key), dict):
            _merge(data[key], value)
        else:
            data[key] = value


def checked_twin(config: Any) -> Any:
    """`twin_of`; a model without visual tokens, or one that has no twin, is refused in a sentence."""
    kind = config if isinstance(config, str) else config.model_type
    if kind in NO_VISUAL_TOKENS:
        raise UnsupportedModelError(
            f"{kind!r} has no visual tokens in its decoder layers: {NO_VISUAL_TOKENS[kind]}. There is nothing to prune."
        )
    try:
        return twin_of(config)
    except VispcoError:
        raise
    except Exception as error:
        raise UnsupportedModelError(
            f"No tiny twin of {kind!r} could be made: {' '.join(str(error).split())} Check the real weights with --weights."
        ) from error
