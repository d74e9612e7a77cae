"""A chat with pictures anywhere in it to a model's inputs, token for token as an evaluation makes them."""

from collections.abc import Mapping, Sequence
from typing import Any

from PIL import Image
from torch import Tensor

from vispco.evaluation.encoded import apply_template


def prompt_inputs(
    processor: Any, turns: Sequence[Mapping[str, Any]], images: Sequence[Image.Image]
) -> dict[str, Tensor]:
    """Turns as chat templates take them, with {"type": "image"} where a picture stands -> the processor's tensors."""
    text = apply_template(processor, turns)
    begin = processor.tokenizer.bos_token
    options = {"add_special_tokens": False} if begin and text.startswith(begin) else {}
    shown = {"images": [list(images)]} if images else {}
    found = processor(text=[text], return_tensors="pt", **shown, **options)
    return {name: value for name, value in found.items() if isinstance(value, Tensor)}
