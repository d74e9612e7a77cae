"""The entry point `vllm.general_plugins`: names for the pruned classes, and what an engine with one of them may not do."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vispco.core.errors import InvalidInputError, VispcoError
from vispco.vllm.engine_arguments import ARCHITECTURES, check_version
from vispco.vllm.settings import KEEP, PRUNE, ServingSettings


def register() -> None:
    """Register the pruned classes under names of their own, in every process of vLLM. Nothing else changes.

    A version of vLLM that is not listed gets no names; `options` refuses it.
    """
    try:
        check_version()
    except VispcoError:
        return
    from vllm import ModelRegistry  # noqa: PLC0415 - vLLM is optional
    from vllm.model_executor.models.config import MODELS_CONFIG_MAP  # noqa: PLC0415

    for name in ARCHITECTURES.values():
        ModelRegistry.register_model(name, f"vispco.vllm.models:{name}")
        MODELS_CONFIG_MAP[name] = _PrunedEngineConfig


class _PrunedEngineConfig:
    """The hooks that vLLM calls for the config of a registered class."""

    @staticmethod
    def verify_and_update_model_config(model_config: Any) -> None:
        """Check the settings. Plain rotary positions become M-RoPE with equal axes: vLLM asks the model for those only."""
        ServingSettings.of_config(model_config.hf_config)
        text = model_config.hf_config.get_text_config()
        rope = getattr(text, "rope_parameters", None) or {}
        if "mrope_section" in rope:
            return
        if rope.get("rope_type", "default") != "default":
            raise InvalidInputError(
                f"The model's positions are of the type {rope['rope_type']!r}. Inside vLLM tokens are pruned in models with "
                "M-RoPE or plain rotary positions; run this one with `vispco serve`."
            )
        size = getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
        half = int(size * rope.get("partial_rotary_factor", 1.0)) // 2
        third = half // 3
        text.rope_parameters = {**rope, "mrope_section": [half - 2 * third, third, third]}

    @staticmethod
    def verify_and_update_config(vllm_config: Any) -> None:
        """Refuse what has not been tested or cannot work."""
        for sentence in _refusals(vllm_config):
            raise InvalidInputError(f"{sentence} For an engine without pruning leave vispco's arguments out.")


def _refusals(vllm_config: Any) -> Iterator[str]:
    """Why an engine with this config does not prune, if it does not."""
    model, parallel, graphs = vllm_config.model_config, vllm_config.parallel_config, vllm_config.compilation_config
    media, lora = model.multimodal_config, vllm_config.lora_config
    window = getattr(model.hf_text_config, "sliding_window", None)
    not_tested = "with which pruning has not been tested"
    if (stages := parallel.pipeline_parallel_size) > 1:
        yield f"pipeline_parallel_size={stages} was given, and positions are known to the first stage alone. Use 1."
    if vllm_config.speculative_config is not None:
        yield "Speculative decoding was asked for, and its drafts do not know the pruned positions. Leave it out."
    if not model.enforce_eager or graphs.cudagraph_mm_encoder:
        yield f"CUDA graphs or compilation were asked for, {not_tested}. Give enforce_eager=True (--enforce-eager)."
    if getattr(parallel, "enable_dbo", False):
        yield "Dual batch overlap was asked for; it splits a step, and positions are added to whole ones. Leave it out."
    if lora is not None and lora.enable_tower_connector_lora:
        yield f"Adapters on the vision tower were asked for, {not_tested}. Leave them out."
    if vllm_config.use_v2_model_runner:
        yield f"vLLM's second model runner was chosen, {not_tested}. Set VLLM_USE_V2_MODEL_RUNNER=0."
    if window is not None and window < model.max_model_len:
        yield (
            f"The model attends to a sliding window of {window} tokens, which vLLM counts without those that have left. Give "
            f"max_model_len={window} (--max-model-len {window}), with which it never slides."
        )
    if media.is_multimodal_pruning_enabled():
        yield "vLLM's own pruning of videos was asked for, too. Keep one of the two."
    if media.enable_mm_embeds:
        yield "enable_mm_embeds was given, but pictures that are embeddings already are not pruned. Leave it out."
    for name in {KEEP, PRUNE} & set(media.mm_processor_kwargs or {}):
        yield f"{name} was given for the engine. Give it as keep of vispco.vllm.options(...)."
