"""The text that stands for a picture in a prompt: as many image tokens as the model will have visual tokens, and its marks.

The rules are those of transformers' processors, by model type. They need the picture's tensors, and no torchvision.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from transformers.image_processing_utils import select_best_resolution

TILED = ("idefics3", "smolvlm")  # rows and columns of tiles, each between marks, and the whole picture last
NESTED = (*TILED, "llava_onevision")  # image processors that want the pictures of each prompt in a list of their own
OPTIONS: Mapping[str, Mapping[str, bool]] = {
    "internvl": {"crop_to_patches": True},
    **{kind: {"return_row_col_info": True} for kind in TILED},
}
"""Of image processors, as transformers' processors set them."""
TENSORS = ("pixel_values", "image_grid_thw", "pixel_attention_mask", "image_sizes", "batch_num_images")
"""What models read of an image processor's output."""
_MAX_RATIO = 1.1  # from here on LLaVA-OneVision scales its tiles' features down


def picture_text(processor: Any, images: Mapping[str, Any], number: int, in_prompt: int) -> str:
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
    if kind in TILED:
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
