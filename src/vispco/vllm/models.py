"""vLLM's own model classes with pictures that are thinned before the language model.

`embed_multimodal` runs the unchanged tower, chooses with a scorer of vispco and appends each token's place in its
picture.
`get_mrope_input_positions` gives text the positions of the unpruned prompt, `embed_input_ids` takes the places off
again and
`forward` adds them to the positions. None of it depends on which part of a prompt a step holds, so chunked prefill and
prefix caching work as without pruning.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor
from vllm.model_executor.layers.rotary_embedding import get_rope
from vllm.model_executor.models import interns1, llava, qwen2_5_vl, qwen3_vl
from vllm.multimodal import MULTIMODAL_REGISTRY

from vispco.vllm.choosing import (
    COLUMNS,
    GridSize,
    choose,
    decode_places,
    encode_places,
    grid_places,
    line_places,
    prompt_positions,
    tower_batches,
)
from vispco.vllm.processing import PICTURES, PrunedInfo, PrunedProcessor
from vispco.vllm.settings import ServingSettings

_VISION_BASE = 10000.0  # of rotary embeddings, which vLLM's towers take for granted


class _PrunedPictures:
    """Mixin for a model class of vLLM."""

    config: Any

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)  # type: ignore[call-arg]  # a model class comes behind
        config = vllm_config.model_config.hf_config
        self.picture_scorer = ServingSettings.of_config(config).chooser
        self.embedding_width: int = config.get_text_config().hidden_size
        self.tower_tokens: int = vllm_config.scheduler_config.max_num_batched_tokens
        self._places: tuple[Tensor, Tensor] | None = None  # columns [K], places [3, K] of the step that is about to run

    def places(self, index: Tensor, grid: GridSize) -> Tensor:
        """Offsets of tokens' positions from that of their picture: int64 [K] -> [K, 3]."""
        return grid_places(index, grid)

    def span(self, grid: GridSize) -> int:
        """The length of a picture in positions, by which the text behind it is shifted."""
        return max(grid)

    def pixel_rows(self, inputs: Mapping[str, Any]) -> list[int]:
        """The number of rows of `pixel_values` of each picture."""
        return [1] * len(inputs["pixel_values"])

    def embed_multimodal(self, **kwargs: Any) -> tuple[Tensor, ...]:
        """In batches of as many whole tokens as vLLM would give a tower: it counts those that will be left."""
        rows = kwargs.pop(PICTURES).tolist()
        ends = [0, *accumulate(self.pixel_rows(kwargs))]
        found: list[Tensor] = []
        for which in tower_batches([math.prod(grid) for _, *grid in rows], self.tower_tokens):
            some = {key: value[which] if value.ndim else value for key, value in kwargs.items()}  # or shared by all
            some["pixel_values"] = kwargs["pixel_values"][ends[which.start] : ends[which.stop]]
            states = super().embed_multimodal(**some)  # type: ignore[misc]
            found += [self._thinned(each, *row) for each, row in zip(states, rows[which], strict=True)]
        return tuple(found)

    def _thinned(self, states: Tensor, left: int, *grid: int) -> Tensor:
        """The pruned picture: [N, W] -> [left, W + COLUMNS]. DeepStack's features are columns of W."""
        size: GridSize = (grid[0], grid[1], grid[2])
        index = choose(self.picture_scorer, states[:, : self.embedding_width], size, left)
        return torch.cat([states[index], encode_places(self.places(index, size), states.dtype)], dim=1)

    def get_mrope_input_positions(self, input_tokens: Sequence[int], mm_features: Sequence[Any]) -> tuple[Tensor, int]:
        pictures = []
        for feature in sorted(mm_features, key=lambda each: each.mm_position.offset):
            left, *grid = feature.data[PICTURES].data.tolist()
            (start, _), *_ = feature.mm_position.extract_embeds_range()
            pictures.append((start, left, self.span((grid[0], grid[1], grid[2]))))
        return prompt_positions(len(input_tokens), pictures)

    def embed_input_ids(
        self,
        input_ids: Tensor,
        multimodal_embeddings: Any = None,
        *,
        is_multimodal: Tensor | None = None,
    ) -> Tensor:
        self._places = None
        if multimodal_embeddings is not None and len(multimodal_embeddings):
            assert is_multimodal is not None  # noqa: S101 - given with embeddings
            at = is_multimodal.nonzero()[:, 0].to(input_ids.device, non_blocking=True)  # from the host: nobody waits
            places = decode_places(torch.cat([each[:, -COLUMNS:] for each in multimodal_embeddings]))
            self._places = at, places.T
            multimodal_embeddings = [each[:, :-COLUMNS] for each in multimodal_embeddings]
        found: Tensor = super().embed_input_ids(  # type: ignore[misc]
            input_ids, multimodal_embeddings, is_multimodal=is_multimodal
        )
        return found

    def forward(self, input_ids: Tensor | None, positions: Tensor, *args: Any, **kwargs: Any) -> Any:
        if self._places is not None:
            (at, places), self._places = self._places, None
            positions = positions.clone()
            positions[:, at] += places.to(positions.dtype)
        return super().forward(input_ids, positions, *args, **kwargs)  # type: ignore[misc]


class _QwenPictures(_PrunedPictures):
    """Qwen's towers, with the rotary base that the config names."""

    visual: Any

    def __init__(self, *, vllm_config: Any, prefix: str = "") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        vision = self.config.vision_config
        base = float((getattr(vision, "rope_parameters", None) or {}).get("rope_theta", _VISION_BASE))
        if base != _VISION_BASE:
            self.visual.rotary_pos_emb = get_rope(
                head_size=vision.hidden_size // vision.num_heads,
                max_position=8192,
                is_neox_style=True,
                rope_parameters={"partial_rotary_factor": 0.5, "rope_theta": base},
            )

    def pixel_rows(self, inputs: Mapping[str, Any]) -> list[int]:
        return list(inputs["image_grid_thw"].prod(-1).tolist())  # on the host


class _QwenProcessor(PrunedProcessor):
    """The grids of Qwen's processors, in tokens."""

    def picture_grids(self, processed: Mapping[str, Any]) -> Tensor:
        merge = self.info.get_hf_config().vision_config.spatial_merge_size
        return torch.as_tensor(processed["image_grid_thw"]).long() // torch.tensor([1, merge, merge])


class _Qwen25Info(PrunedInfo, qwen2_5_vl.Qwen2_5_VLProcessingInfo):  # type: ignore[misc]
    """Qwen2.5-VL."""


class _Qwen25Processor(_QwenProcessor, qwen2_5_vl.Qwen2_5_VLMultiModalProcessor):  # type: ignore[misc]
    """Qwen2.5-VL."""


@MULTIMODAL_REGISTRY.register_processor(
    _Qwen25Processor, info=_Qwen25Info, dummy_inputs=qwen2_5_vl.Qwen2_5_VLDummyInputsBuilder
)
class VispcoQwen2_5_VLForConditionalGeneration(  # noqa: N801 - as vLLM has it
    _QwenPictures,
    qwen2_5_vl.Qwen2_5_VLForConditionalGeneration,  # type: ignore[misc]
):
    """Qwen2.5-VL."""


class _Qwen3Info(PrunedInfo, qwen3_vl.Qwen3VLProcessingInfo):  # type: ignore[misc]
    """Qwen3-VL."""


class _Qwen3Processor(_QwenProcessor, qwen3_vl.Qwen3VLMultiModalProcessor):  # type: ignore[misc]
    """Qwen3-VL."""


@MULTIMODAL_REGISTRY.register_processor(
    _Qwen3Processor, info=_Qwen3Info, dummy_inputs=qwen3_vl.Qwen3VLDummyInputsBuilder
)
class VispcoQwen3VLForConditionalGeneration(
    _QwenPictures,
    qwen3_vl.Qwen3VLForConditionalGeneration,  # type: ignore[misc]
):
    """Qwen3-VL. The features that DeepStack adds after the first layers leave with their tokens."""


class _LinePictures(_PrunedPictures):
    """Plain positions, which are three equal ones here (see `plugin`), since vLLM counts plain ones by itself."""

    supports_mrope: ClassVar[Literal[True]] = True

    def places(self, index: Tensor, grid: GridSize) -> Tensor:  # noqa: ARG002
        return line_places(index)

    def span(self, grid: GridSize) -> int:
        return math.prod(grid)


class _LlavaInfo(PrunedInfo, llava.LlavaProcessingInfo):  # type: ignore[misc]
    """LLaVA-1.5."""


class _LlavaProcessor(PrunedProcessor, llava.LlavaMultiModalProcessor):  # type: ignore[misc]
    """One square of patches for each picture."""

    def picture_grids(self, processed: Mapping[str, Any]) -> Tensor:
        number = self.info.get_max_image_tokens()
        side = math.isqrt(number)
        size = (1, side, side) if side * side == number else (1, 1, number)  # a class token beside the square: a line
        return torch.tensor([size] * len(processed["pixel_values"]))


@MULTIMODAL_REGISTRY.register_processor(_LlavaProcessor, info=_LlavaInfo, dummy_inputs=llava.LlavaDummyInputsBuilder)
class VispcoLlavaForConditionalGeneration(
    _LinePictures,
    llava.LlavaForConditionalGeneration,  # type: ignore[misc]
):
    """LLaVA-1.5."""


class _InternInfo(PrunedInfo, interns1.InternS1ProcessingInfo):  # type: ignore[misc]
    """InternVL."""


class _InternProcessor(PrunedProcessor, interns1.InternS1MultiModalProcessor):  # type: ignore[misc]
    """As many squares as a picture has tiles, in one run between two tokens of their own."""

    def picture_grids(self, processed: Mapping[str, Any]) -> Tensor:
        side = math.isqrt(self.info.get_hf_processor().image_seq_length)
        return torch.tensor([(number, side, side) for number in processed["image_num_patches"].tolist()])


@MULTIMODAL_REGISTRY.register_processor(
    _InternProcessor, info=_InternInfo, dummy_inputs=interns1.InternS1DummyInputsBuilder
)
class VispcoInternVLForConditionalGeneration(
    _LinePictures,
    interns1.InternS1ForConditionalGeneration,  # type: ignore[misc]
):
    """InternVL as transformers has it. The tokens of all tiles of a picture are chosen together."""

    def pixel_rows(self, inputs: Mapping[str, Any]) -> list[int]:
        return list(inputs["image_num_patches"].tolist())
