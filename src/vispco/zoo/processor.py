"""Text and images to a model's inputs, from its folder, with Pillow alone.

`AutoProcessor` needs torchvision for some families. Where that is missing, `JoinedProcessor` joins the folder's own
image processor and tokenizer and does the one thing that lies between them: it puts as many image tokens into the
text as the model will have visual tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoImageProcessor, AutoProcessor, AutoTokenizer, BatchFeature

from vispco.errors import InvalidInputError, UnsupportedModelError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from PIL.Image import Image

FAMILIES = ("qwen2_vl", "qwen2_5_vl", "llava", "gemma3")


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
    """An image processor and a tokenizer that act as one, with the interface of transformers' processors."""

    def __init__(self, image_processor: Any, tokenizer: Any, config: Any) -> None:
        if config.model_type not in FAMILIES:
            raise UnsupportedModelError(
                f"No processor can be joined for models of type {config.model_type!r}; "
                f"known types are {', '.join(FAMILIES)}. With torchvision installed, AutoProcessor may load it."
            )
        self.image_processor, self.tokenizer, self.config = image_processor, tokenizer, config
        self.image_token = tokenizer.convert_ids_to_tokens(config.image_token_id)
        gemma = config.model_type == "gemma3"
        # Gemma3 writes its start token where an image belongs; the others write the image token itself.
        self.placeholder = tokenizer.convert_ids_to_tokens(config.boi_token_index) if gemma else self.image_token
        tokenizer.padding_side = "left"  # generation continues at the right end

    @classmethod
    def from_pretrained(cls, path: str | Path, **options: Any) -> JoinedProcessor:
        image_processor = AutoImageProcessor.from_pretrained(path, backend="pil", **options)
        tokenizer, config = (kind.from_pretrained(path, **options) for kind in (AutoTokenizer, AutoConfig))
        return cls(image_processor, tokenizer, config)

    def _expanded(self, images: BatchFeature, number: int) -> str:
        """The text that stands for image `number`."""
        config = self.config
        if config.model_type == "gemma3":
            end = self.tokenizer.convert_ids_to_tokens(config.eoi_token_index)
            return f"\n\n{self.placeholder}{self.image_token * int(config.mm_tokens_per_image)}{end}\n\n"
        if config.model_type == "llava":
            height, width = images["pixel_values"][number].shape[-2:]
            patch = config.vision_config.patch_size
            full = config.vision_feature_select_strategy == "full"
            return self.image_token * ((height // patch) * (width // patch) + full)  # type: ignore[no-any-return]
        merge = self.image_processor.merge_size**2
        return self.image_token * (int(images["image_grid_thw"][number].prod()) // merge)  # type: ignore[no-any-return]

    def __call__(
        self,
        text: str | Sequence[str],
        images: Image | Sequence[Image] | None = None,
        *,
        padding: bool | str = True,
        return_tensors: str = "pt",
        **kwargs: Any,
    ) -> BatchFeature:
        """Prompts with one placeholder for each image, in order, to `input_ids`, `attention_mask`, `pixel_values`..."""
        prompts = [text] if isinstance(text, str) else list(text)
        pictures = _flat(images)
        wanted = sum(prompt.count(self.placeholder) for prompt in prompts)
        if wanted != len(pictures):
            raise InvalidInputError(
                f"The text has {wanted} image placeholders ({self.placeholder}) for {len(pictures)} images. "
                "Write one for each, or use apply_chat_template."
            )
        found: dict[str, Any] = {}
        if pictures:
            processed = self.image_processor(images=pictures, return_tensors="pt")
            found = {name: processed[name] for name in ("pixel_values", "image_grid_thw") if name in processed}
            number = 0
            for place, prompt in enumerate(prompts):
                first, *rest = prompt.split(self.placeholder)
                for part in rest:
                    first += self._expanded(processed, number) + part
                    number += 1
                prompts[place] = first
        kwargs.setdefault("add_special_tokens", self._begins(prompts))
        encoded = self.tokenizer(prompts, padding=padding, return_tensors=return_tensors, **kwargs)
        ids = torch.as_tensor(encoded["input_ids"])
        found |= {"input_ids": encoded["input_ids"], "attention_mask": encoded["attention_mask"]}
        name = {"gemma3": "token_type_ids", "llava": None}.get(self.config.model_type, "mm_token_type_ids")
        if name is not None:
            found[name] = (ids == self.config.image_token_id).long()
        return BatchFeature(found)

    def _begins(self, prompts: list[str]) -> bool:
        """A chat template writes the first token itself; plain text needs it from the tokenizer."""
        begin = self.tokenizer.bos_token
        return not (begin and all(prompt.startswith(begin) for prompt in prompts))

    def apply_chat_template(self, conversation: Any, **kwargs: Any) -> Any:
        kwargs.setdefault("tokenize", False)
        return self.tokenizer.apply_chat_template(conversation, **kwargs)

    def batch_decode(self, *args: Any, **kwargs: Any) -> list[str]:
        return self.tokenizer.batch_decode(*args, **kwargs)  # type: ignore[no-any-return]

    def decode(self, *args: Any, **kwargs: Any) -> str:
        return self.tokenizer.decode(*args, **kwargs)  # type: ignore[no-any-return]


def _flat(images: Any) -> list[Image]:
    if images is None:
        return []
    if not isinstance(images, list | tuple):
        return [images]
    return [image for entry in images for image in _flat(entry)]
