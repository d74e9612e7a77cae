"""Training batches, and the forward pass over one.

A row holds one picture and many questions about it; each question sees the picture and itself alone, at the position
that it has when it is asked alone. So training on a packed row is training on its questions one by one, at a fraction
of the cost.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from vispco.zoo.token_labels import token_labels
from vispco.zoo.tokenizer import ASSISTANT, END, IMAGE, IMAGE_END, IMAGE_START, USER, build_tokenizer, token_ids

if TYPE_CHECKING:
    from vispco.zoo.training_scenes import TrainingExample

IGNORE = -100


@dataclass(frozen=True, slots=True)
class PackedBatch:
    """Tensors of one step. T is the longest row; text masks are boolean, True where a query may look."""

    input_ids: Tensor  # [B, T]
    targets: Tensor  # [B, T], IGNORE but where the next token is part of an answer
    asked: Tensor  # [B, T], number of the question that a target belongs to
    position_ids: Tensor  # [3, B, T]; the three rows are equal but for M-RoPE
    mask: Tensor  # [B, 1, T, T]
    sliding: Tensor | None  # the same, cut to the window
    pixels: dict[str, Tensor]
    dense: Tensor  # [visual tokens, fields]
    tasks: tuple[str, ...]  # of each question


@lru_cache(maxsize=65536)
def encode(text: str) -> tuple[int, ...]:
    return tuple(_tokenizer()(text, add_special_tokens=False)["input_ids"])


@lru_cache(maxsize=1)
def _tokenizer() -> Any:
    return build_tokenizer("tiny-qwen")


class Packer:
    """Turns examples into the tensors of one model family."""

    def __init__(self, model: Any, image_processor: Any) -> None:
        self.processor = image_processor
        config = model.config
        self.native = hasattr(config.vision_config, "spatial_merge_size")
        self.marks = config.model_type != "llava"
        self.window = getattr(config.text_config, "sliding_window", None)
        self.two_way = config.model_type.startswith("gemma3")  # the visual tokens of an image see each other
        vision = config.vision_config
        self.side = (
            0
            if self.native
            else round(
                (getattr(config, "mm_tokens_per_image", 0) or (vision.image_size // vision.patch_size) ** 2) ** 0.5
            )
        )

    def grids(self, pixels: dict[str, Tensor], count: int) -> list[tuple[int, int]]:
        if not self.native:
            return [(self.side, self.side)] * count
        merge = self.processor.merge_size
        return [(int(h) // merge, int(w) // merge) for _, h, w in pixels["image_grid_thw"].tolist()]

    def __call__(self, given: list[TrainingExample]) -> PackedBatch:
        ids = token_ids()
        found = self.processor(images=[example.image for example in given], return_tensors="pt")
        pixels = {name: found[name] for name in ("pixel_values", "image_grid_thw") if name in found}
        grids = self.grids(pixels, len(given))
        rows = []
        tasks: list[str] = []
        for example, (height, width) in zip(given, grids, strict=True):
            row = _Row(ids, height, width, marks=self.marks, mrope=self.native)
            for task, question, answer in example.questions:
                row.add(question, answer, len(tasks))
                tasks.append(task)
            rows.append(row)
        longest = max(len(row.ids) for row in rows)
        shape = (len(rows), longest)
        input_ids = np.full(shape, ids["<pad>"], dtype=np.int64)
        targets = np.full(shape, IGNORE, dtype=np.int64)
        asked = np.zeros(shape, dtype=np.int64)
        positions = np.zeros((3, *shape), dtype=np.int64)
        group = np.full(shape, -1, dtype=np.int64)  # 0: picture, n: question n, -1: padding
        picture = np.zeros(shape, dtype=bool)
        order = np.zeros(shape, dtype=np.int64)
        for i, row in enumerate(rows):
            length = len(row.ids)
            input_ids[i, :length] = row.ids
            targets[i, : length - 1] = row.targets[1:]
            asked[i, : length - 1] = row.asked[1:]
            positions[:, i, :length] = np.asarray(row.positions).T
            group[i, :length] = row.group
            order[i, :length] = row.order
            picture[i] = input_ids[i] == ids[IMAGE]
        causal = np.arange(longest)[None, :, None] >= np.arange(longest)[None, None, :]
        mask = causal & ((group[:, None, :] == 0) | (group[:, None, :] == group[:, :, None]))
        if self.two_way:
            mask |= picture[:, :, None] & picture[:, None, :]
        sliding = None
        if self.window:
            sliding = mask & (order[:, None, :] > order[:, :, None] - self.window)
        dense = np.concatenate(
            [token_labels(example.scene, *grid) for example, grid in zip(given, grids, strict=True)], axis=0
        )
        return PackedBatch(
            torch.from_numpy(input_ids),
            torch.from_numpy(targets),
            torch.from_numpy(asked),
            torch.from_numpy(positions),
            torch.from_numpy(mask[:, None]),
            None if sliding is None else torch.from_numpy(sliding[:, None]),
            pixels,
            torch.from_numpy(dense),
            tuple(tasks),
        )


class _Row:
    """One packed row in the making."""

    def __init__(self, ids: dict[str, int], height: int, width: int, *, marks: bool, mrope: bool) -> None:
        self.names = ids
        self.ids: list[int] = [ids[USER]] + [ids[IMAGE_START]] * marks
        self.positions = [(i, i, i) for i in range(len(self.ids))]
        start = len(self.ids)
        self.ids += [ids[IMAGE]] * (height * width)
        if mrope:
            self.positions += [(start, start + y, start + x) for y in range(height) for x in range(width)]
            self.next = start + max(height, width)
        else:
            self.positions += [(start + i,) * 3 for i in range(height * width)]
            self.next = start + height * width
        if marks:
            self.ids.append(ids[IMAGE_END])
            self.positions.append((self.next,) * 3)
            self.next += 1
        self.prefix = len(self.ids)
        self.targets = [IGNORE] * self.prefix
        self.asked = [0] * self.prefix
        self.group = [0] * self.prefix
        self.order = list(range(self.prefix))
        self.turns = 0

    def add(self, question: str, answer: str, number: int) -> None:
        self.turns += 1
        ask, reply = encode(question), encode(answer)
        tokens = [*ask, self.names[ASSISTANT], *reply, self.names[END]]
        self.ids += tokens
        self.positions += [(self.next + i,) * 3 for i in range(len(tokens))]
        self.order += [self.prefix + i for i in range(len(tokens))]
        self.targets += [IGNORE] * (len(ask) + 1) + [*reply, self.names[END]]
        self.asked += [number] * len(tokens)
        self.group += [self.turns] * len(tokens)


def visual_tokens(model: Any, pixels: dict[str, Tensor]) -> Tensor:
    """[visual tokens of all images, D], as the language model receives them."""
    features = model.model.get_image_features(**pixels, return_dict=True).pooler_output
    if isinstance(features, list | tuple):
        features = torch.cat(list(features), dim=0)
    return features.reshape(-1, features.shape[-1])  # type: ignore[no-any-return]


def answers(model: Any, batch: PackedBatch, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [A, V], targets [A] and question numbers [A] of every answer token of the batch."""
    embedded = model.get_input_embeddings()(batch.input_ids)
    where = (batch.input_ids == token_ids()[IMAGE]).unsqueeze(-1)
    embedded = embedded.masked_scatter(where, features)
    mask: Any = batch.mask
    if batch.sliding is not None:
        mask = {"full_attention": batch.mask, "sliding_attention": batch.sliding}
    positions = batch.position_ids if model.config.model_type.startswith("qwen") else batch.position_ids[0]
    hidden = model.model.language_model(
        inputs_embeds=embedded, attention_mask=mask, position_ids=positions, use_cache=False
    ).last_hidden_state
    keep = batch.targets != IGNORE
    return model.lm_head(hidden[keep]), batch.targets[keep], batch.asked[keep]


def answer_loss(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    return nn.functional.cross_entropy(logits, targets, label_smoothing=smoothing)


@torch.no_grad()
def right_by_task(logits: Tensor, targets: Tensor, asked: Tensor, tasks: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """(right, asked) of each task; a question is right if all tokens of its answer are."""
    wrong = torch.zeros(len(tasks), dtype=torch.long).index_add_(0, asked, (logits.argmax(-1) != targets).long())
    counts: dict[str, tuple[int, int]] = {}
    for task, misses in zip(tasks, wrong.tolist(), strict=True):
        right, total = counts.get(task, (0, 0))
        counts[task] = (right + (misses == 0), total + 1)
    return counts
