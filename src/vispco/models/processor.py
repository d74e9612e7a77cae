"""Text and images to a model's inputs, from its folder, with Pillow alone.

`AutoProcessor` needs torchvision for some families. Where that is missing, `JoinedProcessor` joins the folder's own
image processor and tokenizer and does the one thing that lies between them: it puts as many image tokens into the
text as the model will have visual tokens. The rules for that are those of transformers' processors, by model type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL.Image import Image
from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, AutoTokenizer, BatchFeature
from transformers.image_processing_utils import select_best_resolution
from transformers.utils import cached_file

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.models.frames import FRAMES_PER_SECOND, JOINED, SETTINGS, STACKED, TIMED, FrameProcessor

_TILED = ("idefics3", "smolvlm")  # rows and columns of tiles, each between marks, and the whole picture last
_NESTED = (*_TILED, "llava_onevision")  # image processors that want the pictures of each prompt in a list of their own
OPTIONS: Mapping[str, Mapping[str, bool]] = {
    "internvl": {"crop_to_patches": True},
    **{kind: {"return_row_col_info": True} for kind in _TILED},
}
"""Of image processors, as transformers' processors set them."""
_TENSORS = ("pixel_values", "image_grid_thw", "pixel_attention_mask", "image_sizes", "batch_num_images")
"""What models read of an image processor's output."""
_MAX_RATIO = 1.1  # from here on LLaVA-OneVision scales its tiles' features down
_FAMILIES = ("qwen2_vl", "qwen2_5_vl", "qwen3_vl", "qwen3_vl_moe", "llava", "gemma3", "internvl", *_TILED, *STACKED)
_TYPED = {"gemma3": "token_type_ids", **dict.fromkeys(JOINED, "mm_token_type_ids")}
"""The input by which a model tells visual tokens from text, where it has one."""


def load_processor(path: str | Path, **options: Any) -> Any:
    """The model's own processor if it can be built here, else a `JoinedProcessor`. options: revision and the like."""
    try:
        found = AutoProcessor.from_pretrained(path, **options)
    except (ImportError, ValueError, OSError, AttributeError, TypeError):
        found = None
    if found is not None and hasattr(found, "image_processor") and hasattr(found, "tokenizer"):
        found.tokenizer.padding_side = "left"
        return found
    return JoinedProcessor.from_pretrained(path, **options)


class JoinedProcessor:
    """An image processor and a tokenizer that act as one, with the interface of transformers' processors.

    video_processor: of frames, for models that take videos.
    """

    def __init__(
        self, image_processor: Any, tokenizer: Any, config: Any, video_processor: FrameProcessor | None = None
    ) -> None:
        if config.model_type not in _FAMILIES:
            raise UnsupportedModelError(
                f"No processor can be joined for models of type {config.model_type!r}; "
                f"known types are {', '.join(_FAMILIES)}. With torchvision, AutoProcessor may load it: pip install '.[vision]' in the "
                "folder of your clone of vispco."
            )
        self.image_processor, self.tokenizer, self.config = image_processor, tokenizer, config
        self.video_processor = video_processor
        self.image_token = tokenizer.convert_ids_to_tokens(config.image_token_id)
        self.video_token = "" if video_processor is None else tokenizer.convert_ids_to_tokens(config.video_token_id)
        gemma = config.model_type == "gemma3"
        # Gemma3 writes its start token where an image belongs; the others write the image token itself.
        self.placeholder = tokenizer.convert_ids_to_tokens(config.boi_token_index) if gemma else self.image_token
        tokenizer.padding_side = "left"  # generation continues at the right end

    @classmethod
    def from_pretrained(cls, path: str | Path, **options: Any) -> JoinedProcessor:
        tokenizer, config = (kind.from_pretrained(path, **options) for kind in (AutoTokenizer, AutoConfig))
        pictures = None  # of this class for video, frames alone are read here
        if config.model_type != "llava_next_video":
            pictures = AutoImageProcessor.from_pretrained(path, backend="pil", **options)
        videos = None
        if config.model_type in (*STACKED, *JOINED):
            known = {name: value for name, value in options.items() if name in ("revision", "cache_dir", "token")}
            file = cached_file(path, SETTINGS, _raise_exceptions_for_missing_entries=False, **known)
            videos = FrameProcessor(
                pictures, config, None if file is None else json.loads(Path(file).read_text("utf-8"))
            )
        return cls(pictures, tokenizer, config, videos)

    def __call__(
        self,
        text: str | Sequence[str],
        images: Image | Sequence[Image] | None = None,
        *,
        videos: Sequence[Sequence[Image]] | None = None,
        fps: float = FRAMES_PER_SECOND,
        padding: bool | str = True,
        return_tensors: str = "pt",
        **kwargs: Any,
    ) -> BatchFeature:
        """Prompts with one placeholder for each image, in order, to `input_ids`, `attention_mask`, `pixel_values`...

        videos: the frames of each video, for models that take videos; fps: frames of a second.
        """
        prompts = [text] if isinstance(text, str) else list(text)
        pictures = _flat(images)
        wanted = sum(prompt.count(self.placeholder) for prompt in prompts)
        if wanted != len(pictures):
            raise InvalidInputError(
                f"The text has {wanted} image placeholders ({self.placeholder}) for {len(pictures)} images. "
                "Write one for each, or use apply_chat_template."
            )
        found: dict[str, Any] = {}
        if videos:
            prompts = self._with_videos(prompts, videos, fps, found)
        if pictures:
            if self.image_processor is None:
                raise UnsupportedModelError(
                    f"Pictures of {self.config.model_type!r} models cannot be read without torchvision, frames of videos can. "
                    "Install it: pip install '.[vision]' in the folder of your clone of vispco."
                )
            kind, counts = self.config.model_type, [prompt.count(self.placeholder) for prompt in prompts]
            given = iter(pictures)
            shown = [[next(given) for _ in range(count)] for count in counts if count] if kind in _NESTED else pictures
            processed = self.image_processor(images=shown, return_tensors="pt", **OPTIONS.get(kind, {}))
            found |= {name: processed[name] for name in _TENSORS if name in processed}
            number = 0
            for place, prompt in enumerate(prompts):
                first, *rest = prompt.split(self.placeholder)
                for part in rest:
                    first += _picture_text(self, processed, number, counts[place]) + part
                    number += 1
                prompts[place] = first
        begin = self.tokenizer.bos_token  # a chat template writes it itself; plain text needs it from the tokenizer
        begun = bool(begin) and all(prompt.startswith(begin) for prompt in prompts)
        kwargs.setdefault("add_special_tokens", not begun)
        encoded = self.tokenizer(prompts, padding=padding, return_tensors=return_tensors, **kwargs)
        ids = torch.as_tensor(encoded["input_ids"])
        found |= {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}
        name = _TYPED.get(self.config.model_type)
        if name is not None:
            found[name] = (ids == self.config.image_token_id).long()
            if videos:
                found[name] += 2 * (ids == self.config.video_token_id).long()
        return BatchFeature(found)

    def _with_videos(
        self, prompts: list[str], videos: Sequence[Sequence[Image]], fps: float, found: dict[str, Any]
    ) -> list[str]:
        """The prompts with as many placeholders as each video has tokens; what the model reads goes to `found`."""
        if self.video_processor is None:
            raise UnsupportedModelError(
                f"A video was given to a {self.config.model_type!r} model, which takes pictures. Give its frames as images."
            )
        wanted = sum(prompt.count(self.video_token) for prompt in prompts)
        if wanted != len(videos):
            raise InvalidInputError(
                f"The text has {wanted} video placeholders ({self.video_token}) for {len(videos)} videos. Write one for each, "
                "or use apply_chat_template."
            )
        tensors, counts = self.video_processor(videos, fps)
        found |= tensors
        texts = iter([self._video_text(count, len(frames), fps) for count, frames in zip(counts, videos, strict=True)])
        expanded = []
        for prompt in prompts:
            first, *rest = prompt.split(self.video_token)
            expanded.append(first + "".join(next(texts) + part for part in rest))
        return expanded

    def _video_text(self, tokens: int, frames: int, fps: float) -> str:
        """The placeholder text of a video by its number of visual tokens."""
        if self.config.model_type not in TIMED or self.video_processor is None:
            return self.video_token * tokens
        name = self.tokenizer.convert_ids_to_tokens
        start, end = (name(getattr(self.config, f"vision_{side}_token_id")) for side in ("start", "end"))
        times = self.video_processor.times(frames, fps)
        shown = f"{start}{self.video_token * (tokens // len(times))}{end}"
        return "".join(f"<{seconds:.1f} seconds>{shown}" for seconds in times)

    def apply_chat_template(
        self, conversation: Any, *, tokenize: bool = False, processor_kwargs: Any = None, **kwargs: Any
    ) -> Any:
        """The prompt as text; with `tokenize` the model's inputs, with the pictures that the conversation holds.

        processor_kwargs: of `__call__`. kwargs: of the tokenizer's template, of which transformers' pipeline gives the most.
        """
        for name in ("return_tensors", "return_dict"):  # of transformers' processors: tensors in a BatchFeature here
            kwargs.pop(name, None)
        text = self.tokenizer.apply_chat_template(conversation, tokenize=False, **kwargs)
        if not tokenize:
            return text
        several = [conversation] if isinstance(conversation[0], dict) else conversation
        images = [image for turns in several for image in _pictures_of(turns)]
        return self(text, images or None, **(processor_kwargs or {}))

    def post_process_image_text_to_text(
        self, outputs: Any, skip_special_tokens: bool = True, **kwargs: Any
    ) -> list[str]:
        return self.batch_decode(outputs, skip_special_tokens=skip_special_tokens, **kwargs)

    @property
    def chat_template(self) -> Any:
        """The tokenizer's."""
        return self.tokenizer.chat_template

    def batch_decode(self, *args: Any, **kwargs: Any) -> list[str]:
        return self.tokenizer.batch_decode(*args, **kwargs)  # type: ignore[no-any-return]

    def decode(self, *args: Any, **kwargs: Any) -> str:
        return self.tokenizer.decode(*args, **kwargs)  # type: ignore[no-any-return]


def _pictures_of(conversation: Any) -> list[Any]:
    """The pictures that stand in a conversation, in order: `{"type": "image", "image": ...}`, or its "url" or "path"."""
    from transformers.image_utils import load_image  # noqa: PLC0415 - only where a conversation holds its pictures

    parts = [part for turn in conversation if not isinstance(turn["content"], str) for part in turn["content"]]
    given = [
        next((part[name] for name in ("image", "url", "path") if part.get(name) is not None), None)
        for part in parts
        if part["type"] == "image"
    ]
    return [load_image(each) for each in given if each is not None]


def _picture_text(processor: Any, images: Mapping[str, Any], number: int, in_prompt: int) -> str:
    """The text of picture `number` of a batch. images: what the image processor gave; in_prompt: pictures of the same prompt."""
    config, tokenizer, image = processor.config, processor.tokenizer, str(processor.image_token)
    kind, vision = str(config.model_type), config.vision_config
    if kind == "gemma3":
        end = tokenizer.convert_ids_to_tokens(config.eoi_token_index)
        return f"\n\n{processor.placeholder}{image * int(config.mm_tokens_per_image)}{end}\n\n"
    if kind == "llava":
        height, width = images["pixel_values"][number].shape[-2:]
        full = config.vision_feature_select_strategy == "full"
        return image * int((height // vision.patch_size) * (width // vision.patch_size) + full)
    if kind == "internvl":
        start = getattr(tokenizer, "start_image_token", "<img>")
        end = getattr(tokenizer, "end_image_token", "</img>")
        return f"{start}{image * (int(config.image_seq_length) * int(images['num_patches'][number]))}{end}"
    if kind in _TILED:
        rows, columns = ([one for row in images[name] for one in row][number] for name in ("rows", "cols"))
        mark = getattr(tokenizer, "fake_image_token", "<fake_token_around_image>")
        tile = image * ((vision.image_size // vision.patch_size) ** 2 // config.scale_factor**2)
        whole = f"{mark}{getattr(tokenizer, 'global_image_token', '<global-img>')}{tile}{mark}"
        lines = ["".join(f"{mark}<row_{r + 1}_col_{c + 1}>{tile}" for c in range(columns)) for r in range(rows)]
        return "".join(f"{line}\n" for line in lines) + ("\n" if lines else "") + str(whole)
    if kind == "llava_onevision":
        side = vision.image_size // vision.patch_size
        if in_prompt > 1:  # of several pictures, each is scaled to one tile
            return image * int(side**2 + 1)
        size = [int(each) for each in images["image_sizes"][number]]
        tile = int(images["pixel_values"].shape[-1])
        pinpoints = processor.image_processor.image_grid_pinpoints
        most = int(config.vision_aspect_ratio.removeprefix("anyres_max_"))
        return image * _anyres_tokens(size, tile, side, pinpoints, most)
    patches, merge = int(images["image_grid_thw"][number].prod()), int(processor.image_processor.merge_size)
    return image * (patches // merge**2)


def _anyres_tokens(size: Sequence[int], tile: int, side: int, pinpoints: Any, most: int) -> int:
    """Visual tokens of a picture of height x width: the whole of it, and its tiles without what pads them, a newline in each row.

    tile: pixels, side: tokens of a tile's side. most: tiles whose features are kept at full size.
    """
    best = select_best_resolution(list(size), pinpoints)
    rows, columns = (side * (int(pixels) // tile) for pixels in best)
    height, width = size
    if width / height > columns / rows:
        rows -= (rows - int(round(height * (columns / width), 7))) // 2 * 2
    else:
        columns -= (columns - int(round(width * (rows / height), 7))) // 2 * 2
    ratio = math.sqrt(rows * columns / (most * side**2))
    if ratio > _MAX_RATIO:
        rows, columns = int(rows // ratio), int(columns // ratio)
    return rows * columns + rows + side**2


def _flat(images: Any) -> list[Image]:
    if images is None:
        return []
    if not isinstance(images, list | tuple):
        return [images]
    return [image for entry in images for image in _flat(entry)]
