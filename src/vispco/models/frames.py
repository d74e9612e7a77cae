"""Videos as a model's inputs, from frames, with Pillow alone: what transformers' video processors need torchvision for.

Frames are pictures that were taken out of a video. Every frame goes through the folder's image processor, with the
settings of its video processor where it has some. Qwen then joins neighbouring frames into temporal patches, and Qwen3-VL
writes the time of each in words; LLaVA's classes for video stack them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from PIL.Image import Image, Resampling
from torch import Tensor

from vispco.core.errors import InvalidInputError

SETTINGS = "video_preprocessor_config.json"
FRAMES_PER_SECOND = 2.0  # what frames are taken for unless they say otherwise: the rate at which Qwen takes them
STACKED = ("llava_next_video", "llava_onevision")
# a text for each temporal patch: its time, and the patch between the marks of a picture
TIMED = ("qwen3_vl", "qwen3_vl_moe")
JOINED = ("qwen2_vl", "qwen2_5_vl", *TIMED)


class FrameProcessor:
    """Frames to tensors, for one model.

    image_processor: of single pictures, with Pillow. config: of the model. settings: of the folder's video processor, the
        contents of `SETTINGS`.
    """

    def __init__(self, image_processor: Any, config: Any, settings: dict[str, Any] | None = None) -> None:
        self.config, self.kind = config, str(config.model_type)
        self.settings = settings or {}
        self.image_processor = _clip_processor(self.settings, config) if self.kind in STACKED else image_processor

    def __call__(
        self, videos: Sequence[Sequence[Image]], rate: float = FRAMES_PER_SECOND
    ) -> tuple[dict[str, Tensor], list[int]]:
        """Inputs of the model, and how many visual tokens each video has. rate: frames of a second."""
        for frames in videos:
            if not frames:
                raise InvalidInputError("A video without frames was given. Give at least one picture.")
        if not rate > 0:
            raise InvalidInputError(f"{rate} frames per second were given. Give a number above 0.")
        return self._joined(videos, rate) if self.kind in JOINED else self._stacked(videos)

    def _joined(self, videos: Sequence[Sequence[Image]], rate: float) -> tuple[dict[str, Tensor], list[int]]:
        """Patches [P, C T p p] that hold T neighbouring frames each; the last frame is repeated where one is missing."""
        tool, pixels, grids = self.image_processor, [], []
        span, size = int(tool.temporal_patch_size), self.settings.get("size")
        options = {} if size is None else {"size": size}
        for frames in videos:
            whole = [*frames, *[frames[-1]] * (-len(frames) % span)]
            whole = [frame if frame.size == frames[0].size else frame.resize(frames[0].size) for frame in whole]
            if self.kind in TIMED and size is not None:  # the pixels of all frames together are bounded
                whole, options = _fitted(whole, len(frames), size, tool), {"do_resize": False}
            found = tool(images=whole, return_tensors="pt", **options)
            _, rows, columns = found["image_grid_thw"][0].tolist()
            # the processor of pictures shows a frame at all T moments of a patch: [F, P, C, T, p p]
            moments = found["pixel_values"].view(len(whole), rows * columns, -1, span, tool.patch_size**2)
            parts = [moments[moment::span, :, :, moment] for moment in range(span)]
            pixels.append(torch.stack(parts, dim=3).flatten(2).flatten(0, 1))
            grids.append([len(whole) // span, rows, columns])
        grid = torch.tensor(grids)
        inputs = {"pixel_values_videos": torch.cat(pixels), "video_grid_thw": grid}
        if self.kind == "qwen2_5_vl":  # its positions count seconds
            inputs["second_per_grid_ts"] = torch.full((len(videos),), span / rate)
        return inputs, (grid.prod(-1) // tool.merge_size**2).tolist()

    def times(self, frames: int, rate: float) -> list[float]:
        """Seconds at the middle of each temporal patch of a video; the last frame is repeated where one is missing."""
        span = int(self.image_processor.temporal_patch_size)
        last = frames - 1
        return [(i + min(i + span - 1, last)) / 2 / rate for i in range(0, frames, span)]

    def _stacked(self, videos: Sequence[Sequence[Image]]) -> tuple[dict[str, Tensor], list[int]]:
        """Frames [N, F, C, H, W]."""
        lengths = sorted({len(frames) for frames in videos})
        if len(lengths) > 1:
            raise InvalidInputError(
                f"Videos of {' and '.join(map(str, lengths))} frames were given in one batch. {self.kind} takes videos of one "
                "length at a time."
            )
        frames = [self.image_processor(images=list(each), return_tensors="pt")["pixel_values"] for each in videos]
        side = self.config.vision_config.image_size // self.config.vision_config.patch_size
        newline = self.kind == "llava_onevision"  # one token more at the end of a video
        pooled = -(-side // 2) if newline else side // int(self.config.spatial_pool_stride)
        return {"pixel_values_videos": torch.stack(frames)}, [pooled**2 * lengths[0] + newline] * len(videos)


def _fitted(frames: Sequence[Image], count: int, size: dict[str, int], tool: Any) -> list[Image]:
    """Frames at the size of Qwen3-VL: sides in whole tokens, and all pixels of `count` frames within the bounds of `size`."""
    token, width, height = tool.patch_size * tool.merge_size, *frames[0].size
    enlarged = max(1.0, token / width, token / height)
    width, height = int(width * enlarged), int(height * enlarged)
    sides = [round(side / token) * token for side in (width, height)]
    moments = round(count / tool.temporal_patch_size) * tool.temporal_patch_size
    pixels, least, most = moments * sides[0] * sides[1], size["shortest_edge"], size["longest_edge"]
    if not least <= pixels <= most:
        bound = most if pixels > most else least
        scale = math.sqrt(bound / (count * width * height)) / token
        whole = math.floor if pixels > most else math.ceil
        sides = [max(token, whole(side * scale) * token) for side in (width, height)]
    return [frame.resize((sides[0], sides[1]), Resampling.BICUBIC) for frame in frames]


def _clip_processor(settings: dict[str, Any], config: Any) -> Any:
    """A processor that scales pictures to the one size that a tower takes, by the settings of a video processor."""
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil  # noqa: PLC0415

    side = int(config.vision_config.image_size)
    names = ("resample", "image_mean", "image_std", "rescale_factor", "do_rescale", "do_normalize", "do_convert_rgb")
    kept = {name: settings[name] for name in names if name in settings}
    if config.model_type == "llava_onevision":
        return CLIPImageProcessorPil(size={"height": side, "width": side}, do_center_crop=False, **kept)
    return CLIPImageProcessorPil(size={"shortest_edge": side}, crop_size={"height": side, "width": side}, **kept)
