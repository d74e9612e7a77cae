"""Prompts with pictures for a twin: token ids, the features of the pictures, and whatever else its class asks for.

Pictures are given as features (`mm_encoder_outputs`), as transformers' own `generate` gives them: what is checked is the
language model, and every vision tower takes pixels in its own way. Classes that take no features get pixels.
"""

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vispco.check.twin import FIRST_WORD, IMAGE, OVERRIDES, PAD, VOCAB, WIDTH
from vispco.families import family_of

_ROWS, _COLUMNS = 3, 4  # of one picture
Piece = int | str
"""A number of words, or 'picture'."""
ONE: tuple[Piece, ...] = (3, "picture", 5)
TWO: tuple[Piece, ...] = (2, "picture", 2, "picture", 7)


class _EncodedPictures(BaseModelOutputWithPooling):  # type: ignore[misc]
    """Features as any class asks for them; the fields beyond `pooler_output` are read by few."""

    deepstack_features: Any = None
    vision_outputs: Any = None
    qformer_outputs: Any = None
    visual_indicator_features: Any = None


@dataclass(frozen=True)
class Prompter:
    """Makes inputs for one model.

    stacked: whether features of pictures are one tensor [I, T, D] rather than a tuple of [T, D].
    token_types: whether prompts come with token types.
    """

    model: nn.Module
    stacked: bool = False
    token_types: bool = True

    @property
    def tokens(self) -> int:
        """Visual tokens of a picture."""
        return int(self._odd.get("tokens", _ROWS * _COLUMNS))

    @property
    def answer_type(self) -> int:
        """The token type of what the model writes."""
        return int(self._odd.get("answer_type", 0))

    @property
    def _odd(self) -> Mapping[str, Any]:
        """What the model's class needs besides."""
        config: Any = self.model.config
        return OVERRIDES.get(config.model_type, {})

    def __call__(self, samples: Sequence[Sequence[Piece]], *, side: str = "left") -> dict[str, Any]:
        """Inputs of a batch, padded on one side."""
        # every sample draws its own words and pictures, so that it is the same alone and in a batch
        rows = [self._ids(sample, number) for number, sample in enumerate(samples)]
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), PAD)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for b, row in enumerate(rows):
            place = slice(width - len(row), None) if side == "left" else slice(0, len(row))
            ids[b, place], mask[b, place] = torch.tensor(row), 1
        pictures = [(number, k) for number, s in enumerate(samples) for k in range(sum(p == "picture" for p in s))]
        return self._with_pictures({"input_ids": ids, "attention_mask": mask}, pictures)

    def alone(self, samples: Sequence[Sequence[Piece]], number: int) -> dict[str, Any]:
        """One sample of a batch by itself."""
        ids = torch.tensor([self._ids(samples[number], number)])
        pictures = [(number, k) for k in range(sum(p == "picture" for p in samples[number]))]
        return self._with_pictures({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, pictures)

    def visual(self, inputs: dict[str, Any]) -> Tensor:
        """Where the pictures are: bool [B, N]."""
        where: Tensor = inputs["input_ids"] == self._image_id()
        return where

    def _image_id(self) -> int:
        known = family_of(self.model).visual_token_ids(self.model)
        return int(self._odd.get("image_id", known[0] if known else IMAGE))

    def _ids(self, sample: Sequence[Piece], number: int) -> list[int]:
        draw = torch.Generator().manual_seed(100 + number)
        out: list[int] = []
        before, after = self._odd.get("around", ((), ()))
        for piece in sample:
            if isinstance(piece, int):
                out += torch.randint(FIRST_WORD, VOCAB, (piece,), generator=draw).tolist()
            else:
                out += [*before, *[self._image_id()] * self.tokens, *after]
        return out

    def _with_pictures(self, inputs: dict[str, Any], pictures: list[tuple[int, int]]) -> dict[str, Any]:
        takes = inspect.signature(self.model.forward).parameters
        visual = (inputs["input_ids"] == self._image_id()).long()
        if "mm_token_type_ids" in takes:
            inputs["mm_token_type_ids"] = visual
        if "moe_mm_token_type_ids" in takes:
            inputs["moe_mm_token_type_ids"] = visual
        if "token_type_ids" in takes and self.token_types:
            inputs["token_type_ids"] = torch.zeros_like(visual) if self.answer_type else visual
        if "image_grid_thw" in takes and pictures:
            config: Any = self.model.config
            vision = getattr(config, "vision_config", config)
            sizes = (getattr(vision, each, None) for each in ("spatial_merge_size", "merge_size", "merge_kernel_size"))
            merge = next((each if isinstance(each, int) else each[0] for each in sizes if each is not None), 1)
            inputs["image_grid_thw"] = torch.tensor([[1, _ROWS * merge, _COLUMNS * merge]] * len(pictures))
        if not pictures:
            return inputs
        if "inputs" in self._odd:
            return {**inputs, **self._pixels(self._odd["inputs"], pictures)}
        if self._odd.get("masked"):
            features = torch.cat(self._features(pictures))
            return {**inputs, "image_embeds": features, "image_embeds_position_mask": visual}
        return {**inputs, "mm_encoder_outputs": {"image": self._encoded(pictures)}}

    def _pixels(self, shapes: Mapping[str, Any], pictures: list[tuple[int, int]]) -> dict[str, Any]:
        """Inputs by shape, one row a picture; a number is a number of words."""
        return {
            name: torch.arange(shape).add(FIRST_WORD).expand(len(pictures), -1)
            if isinstance(shape, int)
            else torch.stack([self._random(number, k, *shape) for number, k in pictures])
            for name, shape in shapes.items()
        }

    def _encoded(self, pictures: list[tuple[int, int]]) -> _EncodedPictures:
        features = self._features(pictures)
        config: Any = self.model.config
        layers = self._odd.get("deepstack_layers")
        deep = layers or getattr(getattr(config, "vision_config", None), "deepstack_visual_indexes", None)
        out = _EncodedPictures(pooler_output=torch.stack(features) if self.stacked else tuple(features))
        out.last_hidden_state = torch.stack(features)
        if deep:
            added = [self._features(pictures, salt=1 + level) for level in range(len(deep))]
            out.deepstack_features = (
                list(zip(layers, added, strict=True)) if layers else [tuple(each) for each in added]
            )
        return out

    def _features(self, pictures: list[tuple[int, int]], salt: int = 0) -> list[Tensor]:
        text: Any = self.model.get_input_embeddings()  # type: ignore[operator]
        width = int(getattr(text, "embedding_dim", WIDTH))
        return [self._random(number, k, self.tokens, width, salt=salt) for number, k in pictures]

    def _random(self, number: int, picture: int, *shape: int, salt: int = 0) -> Tensor:
        """Numbers that belong to one picture of one sample, whatever batch it is in."""
        draw = torch.Generator().manual_seed(1000 * salt + 10 * number + picture + 7)
        return torch.randn(*shape, generator=draw)


def copied(inputs: dict[str, Any]) -> dict[str, Any]:
    """The same inputs for one more call: transformers writes into the dictionary of features."""
    return {k: dict(v) if isinstance(v, dict) else v for k, v in inputs.items()}


@torch.no_grad()
def prompter_for(model: nn.Module) -> Prompter:
    """The prompter whose features the model takes; what the model says against both forms is raised."""
    first: Exception | None = None
    for stacked in (False, True):
        prompter = Prompter(model, stacked)
        try:
            model(**prompter([ONE]))
        except (TypeError, AttributeError, ValueError, RuntimeError) as error:
            first = first or error
        else:
            return prompter
    assert first is not None  # noqa: S101 - the loop has run
    raise first
