"""Mixins for vLLM's processing classes: as many placeholders as tokens stay, and that number beside the pixels.

The number follows from the size of a picture and the share alone.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from vllm.multimodal.inputs import MultiModalFieldConfig
from vllm.multimodal.processing import PromptReplacement, PromptUpdateDetails

from vispco.core.errors import InvalidInputError
from vispco.vllm.choosing import check_places
from vispco.vllm.settings import FIELD, KEEP, PRUNE, ServingSettings, kept_tokens

PICTURES = "vispco_pictures"
"""The field that travels with each picture: tokens left, frames, rows, columns; int64 [4]."""


class PrunedInfo:
    """Of vLLM's `ProcessingInfo`: what a picture takes up at most. Videos are not served."""

    ctx: Any

    @cached_property
    def pruning(self) -> ServingSettings:
        return ServingSettings.of_config(self.ctx.model_config.hf_config)

    def get_supported_mm_limits(self) -> Mapping[str, int | None]:
        limits: Mapping[str, int | None] = super().get_supported_mm_limits()  # type: ignore[misc]
        return {kind: most if kind == "image" else 0 for kind, most in limits.items()}

    def get_mm_max_tokens_per_item(self, seq_len: int, mm_counts: Mapping[str, int]) -> Mapping[str, int]:  # noqa: ARG002
        """By the largest share that a request may ask for: the encoder cache is sized by it."""
        return {"image": kept_tokens(self.get_max_image_tokens(), self.pruning.max_keep)}  # type: ignore[attr-defined]


class PrunedProcessor:
    """Of vLLM's `MultiModalProcessor`. Subclasses say how large the pictures are."""

    info: Any

    def picture_grids(self, processed: Mapping[str, Any]) -> Tensor:
        """Frames, rows and columns of each picture's tokens, from what the model's processor made: int64 [n, 3]."""
        raise NotImplementedError

    def get_dummy_inputs(self, *args: Any, **options: Any) -> Any:
        """The largest picture at the largest share, with text behind it as a prompt has."""
        inputs = super().get_dummy_inputs(*args, **options)  # type: ignore[misc]
        return replace(inputs, prompt=[*inputs.prompt, 0], hf_processor_mm_kwargs={KEEP: self.info.pruning.max_keep})

    def apply(self, inputs: Any, timing_ctx: Any) -> Any:
        """Refuse a prompt whose last token is of a picture: its output is read, so it may not leave."""
        found = super().apply(inputs, timing_ctx)  # type: ignore[misc]
        length = len(found["prompt_token_ids"])
        if any(place.offset + place.length == length for place in found["mm_placeholders"].get("image", ())):
            raise InvalidInputError("The prompt ends with a picture. Put text behind it, as chat templates do.")
        return found

    def _get_mm_hashes(self, inputs: Any) -> Any:
        """By who chooses and the share, however it was given: caches hold what is left of a picture."""
        plain, share = self._read(inputs.hf_processor_mm_kwargs)
        known = {**plain, FIELD: [self.info.pruning.scorer, share]}
        return super()._get_mm_hashes(replace(inputs, hf_processor_mm_kwargs=known))  # type: ignore[misc]

    def _apply_hf_processor_main(self, mm_items: Any, hf_kwargs: Mapping[str, Any]) -> Any:
        plain, share = self._read(hf_kwargs)
        processed = super()._apply_hf_processor_main(mm_items, plain)  # type: ignore[misc]
        if mm_items.get_all_counts().get("image", 0):
            grids = self.picture_grids(processed)
            numbers = grids.prod(-1).tolist()
            check_places(max(numbers))
            left = torch.tensor([kept_tokens(number, share) for number in numbers])
            processed[PICTURES] = torch.cat([left[:, None], grids], dim=1)
        return processed

    def _get_mm_fields_config(self, hf_inputs: Any, hf_processor_mm_kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        fields = super()._get_mm_fields_config(hf_inputs, self._read(hf_processor_mm_kwargs)[0])  # type: ignore[misc]
        return {**fields, PICTURES: MultiModalFieldConfig.batched("image", keep_on_cpu=True)}

    def _get_prompt_updates(
        self, mm_items: Any, hf_processor_mm_kwargs: Mapping[str, Any], out_mm_kwargs: Any
    ) -> Sequence[Any]:
        plain, _ = self._read(hf_processor_mm_kwargs)
        updates = super()._get_prompt_updates(mm_items, plain, out_mm_kwargs)  # type: ignore[misc]
        return [self._shortened(each, out_mm_kwargs) for each in updates if each.modality == "image"]

    def _shortened(self, update: Any, out_mm_kwargs: Any) -> Any:
        """A replacement whose run of one token has as many of them as are left; text may stand before and behind it."""

        def run(item: int) -> Any:
            whole = update.replacement(item) if callable(update.replacement) else update.replacement
            details = whole if isinstance(whole, PromptUpdateDetails) else PromptUpdateDetails.from_seq(whole)
            full = details.full
            shown = [True] * len(full) if details.is_embed is None else details.is_embed(full).tolist()
            left, *grid = out_mm_kwargs["image"][item][PICTURES].data.tolist()
            start, number = shown.index(True), math.prod(grid)
            if sum(shown) != number or full[start : start + number] != [full[start]] * number:
                raise InvalidInputError(
                    "A picture of this model is not one run of one placeholder, so it is not known which of them leave. Run "
                    "the model with `vispco serve`."
                )
            return PromptUpdateDetails.select_token_id([*full[: start + left], *full[start + number :]], full[start])

        return PromptReplacement(modality="image", target=update.target, replacement=run)

    def _read(self, kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], float]:
        """A request's arguments without vispco's, and its share."""
        plain = {key: value for key, value in kwargs.items() if key not in (KEEP, PRUNE)}
        return plain, self.info.pruning.share(kwargs)
