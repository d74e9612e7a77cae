"""How many numbers a model holds, counted without making them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

DTYPES = {"float32": 4, "bfloat16": 2, "float16": 2}


@dataclass(frozen=True)
class Memory:
    """Parameters: of all, and of the part that is not the language model (vision tower and projector)."""

    parameters: int
    vision: int

    @property
    def language(self) -> int:
        return self.parameters - self.vision

    def weights(self, dtype: str) -> int:
        """Bytes."""
        return self.parameters * DTYPES[dtype]


def memory(config: Any) -> Memory:
    """From a transformers config; the model is built on the meta device, where tensors have shapes and nothing else."""
    from transformers import AutoModelForImageTextToText  # noqa: PLC0415

    from vispco.families import family_of  # noqa: PLC0415

    with torch.device("meta"):
        model = AutoModelForImageTextToText.from_config(config)
    text = {id(p) for p in family_of(model).text_model(model).parameters()}
    head = model.get_output_embeddings()
    text |= {id(p) for p in head.parameters()} if head is not None else set()
    sizes = {id(p): p.numel() for p in model.parameters()}
    return Memory(sum(sizes.values()), sum(size for key, size in sizes.items() if key not in text))
