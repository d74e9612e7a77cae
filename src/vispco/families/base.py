"""What the engine must know about a model: where its parts are and how to find its visual tokens. No pruning here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vispco.errors import InvalidInputError, UnsupportedModelError
from vispco.layout import TokenLayout

ImageSizes = tuple[tuple[int, int, int], ...]


class Family:
    """The generic vision-language model of transformers; a family overrides only what is odd about it."""

    model_types: ClassVar[tuple[str, ...]] = ()
    text_model_names: ClassVar[tuple[str, ...]] = ("language_model", "text_model")
    picture_inputs: ClassVar[tuple[str, ...]] = (
        "pixel_values",
        "pixel_values_videos",
        "mm_encoder_outputs",
        "image_hidden_states",
    )
    attention_name: ClassVar[str] = "self_attn"
    ffn_name: ClassVar[str] = "mlp"

    def base(self, model: nn.Module) -> nn.Module:
        """The module that joins pictures and text: it takes `input_ids` and calls the language model."""
        inner = getattr(model, "model", None)
        found = inner if isinstance(inner, nn.Module) and self._text_name(inner) else model
        if not self._text_name(found):
            raise UnsupportedModelError(
                f"{type(model).__name__} has none of {', '.join(self.text_model_names)} inside, so its decoder layers "
                "cannot be found. vispco serves transformers' image-text-to-text models; for another kind add a Family."
            )
        return found

    def text_model(self, model: nn.Module) -> nn.Module:
        base = self.base(model)
        found: nn.Module = getattr(base, self._text_name(base))
        return found

    def layers(self, model: nn.Module) -> nn.ModuleList:
        layers = getattr(self.text_model(model), "layers", None)
        if not isinstance(layers, nn.ModuleList) or not len(layers):
            raise UnsupportedModelError(
                f"The language model {type(self.text_model(model)).__name__} has no list of decoder `layers`, which "
                "pruning works on."
            )
        return layers

    def attention(self, layer: nn.Module) -> nn.Module:
        return self._part(layer, self.attention_name)

    def ffn(self, layer: nn.Module) -> nn.Module:
        return self._part(layer, self.ffn_name)

    def visual_token_ids(self, model: nn.Module) -> tuple[int, ...]:
        """Ids of the placeholders that pictures and videos take the place of."""
        config: Any = self.base(model).config
        names = ("image_token_id", "image_token_index", "video_token_id", "video_token_index")
        ids = dict.fromkeys(i for name in names if isinstance(i := getattr(config, name, None), int))
        if not ids:
            raise UnsupportedModelError(
                f"The config of {type(model).__name__} names no image_token_id, so visual tokens cannot be found."
            )
        return tuple(ids)

    def image_sizes(self, model: nn.Module, inputs: Mapping[str, Any]) -> ImageSizes | None:  # noqa: ARG002
        """Token grid (frames, rows, columns) of each image in order, where it is known."""
        return None

    def layout(self, model: nn.Module, inputs: Mapping[str, Any], *, answers: Tensor | None = None) -> TokenLayout:
        """Find the visual tokens of one forward pass from the inputs of `base(model)`."""
        ids, embeds = inputs.get("input_ids"), inputs.get("inputs_embeds")
        given = ids if ids is not None else embeds
        if given is None:
            raise InvalidInputError("The model was called with neither input_ids nor inputs_embeds.")
        shape, device = given.shape[:2], given.device
        has_pictures = any(inputs.get(name) is not None for name in self.picture_inputs)
        if ids is not None:
            visual = torch.isin(ids, torch.tensor(self.visual_token_ids(model), device=device))
        elif has_pictures:
            visual = self._placeholders_in(model, given)
        else:
            visual = torch.zeros(shape, dtype=torch.bool, device=device)
        if not has_pictures:
            if shape[1] > 1 and ids is not None and bool(visual.any()):
                raise UnsupportedModelError(
                    "The prompt has image placeholders but no pictures came with it. This happens in chunked prefill "
                    "(prefill_chunk_size) or with features merged beforehand; prefill in one piece, with pixel_values "
                    "or mm_encoder_outputs."
                )
            visual = torch.zeros_like(visual)
        mask = inputs.get("attention_mask")
        real = mask[:, -shape[1] :] if isinstance(mask, Tensor) and mask.dim() == 2 else None
        if answers is not None and answers.shape != shape:
            answers = None
        sizes = self.image_sizes(model, inputs) if has_pictures else None
        return TokenLayout.build(visual, real, answers=answers, image_sizes=sizes)

    def _placeholders_in(self, model: nn.Module, embeds: Tensor) -> Tensor:
        """Placeholders among embeddings, recognised as transformers does: by equality with the token's embedding."""
        table: Any = self.base(model)
        found = torch.zeros(embeds.shape[:2], dtype=torch.bool, device=embeds.device)
        for token in self.visual_token_ids(model):
            token_embedding = table.get_input_embeddings()(torch.tensor(token, device=embeds.device))
            found |= (embeds == token_embedding).all(-1)
        return found

    def _text_name(self, module: nn.Module) -> str:
        return next((n for n in self.text_model_names if isinstance(getattr(module, n, None), nn.Module)), "")

    def _part(self, layer: nn.Module, name: str) -> nn.Module:
        part = getattr(layer, name, None)
        if not isinstance(part, nn.Module):
            raise UnsupportedModelError(f"{type(layer).__name__} has no module `{name}`, which this scorer needs.")
        return part


def square(tokens: int) -> tuple[int, int, int] | None:
    """The grid of a square picture with so many tokens, None if it is not a square number."""
    side = round(tokens**0.5)
    return (1, side, side) if side * side == tokens else None
