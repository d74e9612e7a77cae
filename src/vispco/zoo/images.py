"""The image processor of each shipped model; the Pillow twins of transformers, which need no torchvision."""

from __future__ import annotations

from typing import Any


def build_image_processor(name: str) -> Any:
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil  # noqa: PLC0415
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil  # noqa: PLC0415
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil  # noqa: PLC0415

    if name in ("tiny-qwen", "tiny-deep"):
        token = 14 * 14  # pixels
        return Qwen2VLImageProcessorPil(
            patch_size=14,
            merge_size=1,
            temporal_patch_size=2,
            size={"shortest_edge": 36 * token, "longest_edge": 256 * token},
        )
    if name == "tiny-llava":
        return CLIPImageProcessorPil(size={"height": 120, "width": 120}, do_center_crop=False)
    return Gemma3ImageProcessorPil(size={"height": 120, "width": 120}, do_pan_and_scan=False)
