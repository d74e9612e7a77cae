"""Checks of a model and its settings before it is pruned."""

from typing import Any

from torch import nn
from transformers.cache_utils import DynamicCache

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.engine.attention import FLASH, implementation_of
from vispco.engine.cache import SUPPORTED_LAYERS
from vispco.engine.call_state import EngineOptions
from vispco.engine.layer_map import LayerMap
from vispco.families import Family
from vispco.scorers.chain import Chain

_SERVED = ("eager", "sdpa", *FLASH)
_UNSERVED_GENERATION = {
    "prefill_chunk_size": "a picture cut into chunks cannot be ranked as a whole.",
    "cache_implementation": "pruning needs the cache that grows (DynamicCache), which is the default.",
}


def check_model(model: nn.Module, layers: LayerMap, chain: Chain, options: EngineOptions, family: Family) -> None:
    """Refuse a model, its settings, or a chain and a mode that do not fit it."""
    text: Any = family.text_model(model)
    name = implementation_of(text)
    if name not in _SERVED:
        raise UnsupportedModelError(
            f"The model runs attention as {name!r}; the engine serves {', '.join(_SERVED)}. "
            "Call model.set_attn_implementation('sdpa') first."
        )
    generation: Any = getattr(model, "generation_config", None)
    for setting, why in _UNSERVED_GENERATION.items():
        value = getattr(generation, setting, None)
        if value not in (None, "dynamic"):
            raise UnsupportedModelError(f"generation_config.{setting} is {value!r}: {why} Set it to None.")
    if options.mode not in ("drop", "mask"):
        raise InvalidInputError(f"mode={options.mode!r} was given. It is 'drop' or 'mask'.")
    if options.mode == "mask" and (chain.merges or any(scorer.merges for _, scorer in chain.tower)):
        raise InvalidInputError(
            f"The chain {chain.name!r} merges tokens, and a merged token cannot be expressed by a mask. Use "
            "mode='drop', or the method without merging (for SparseVLM: recycle=false)."
        )
    if chain.stages[-1][0] >= len(layers.names):
        last, scorer = chain.stages[-1]
        raise InvalidInputError(
            f"The scorer {scorer.name!r} was put at layer {last}, but the model has layers 0 to {len(layers.names) - 1}."
        )
    for i, layer in enumerate(DynamicCache(config=text.config).layers):
        if type(layer) not in SUPPORTED_LAYERS:
            raise UnsupportedModelError(
                f"Layer {i} of this model keeps a cache of its own kind ({type(layer).__name__}), of which vispco cannot leave "
                "tokens out, so it cannot be pruned. Run it without a pruner, or choose a model with plain attention caches."
            )
    if chain.taps_attention or options.mode == "mask":
        layers.check_readable()
    if any(scorer.site == "mid" for scorer in chain.scorers):
        family.ffn(family.layers(model)[0])
    if chain.needs_vision:
        family.check_vision(model)
