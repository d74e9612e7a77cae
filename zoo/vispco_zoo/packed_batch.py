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
from transformers import AttentionInterface

from vispco_zoo.token_labels import token_labels
from vispco_zoo.tokenizer import CHATML, PLAIN, SMOL, Markup, build_tokenizer, markup, token_ids

if TYPE_CHECKING:
    from vispco_zoo.training_scenes import TrainingExample

Levels = tuple[Tensor, ...]
"""Features [visual tokens, D]: those that the language model receives, then what DeepStack adds after its first layers."""
IGNORE = -100
ATTENTION = "vispco_packed"  # name of `packed_attention` in transformers


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
    blocks: Blocks | None = None  # for `packed_attention`


@dataclass(frozen=True, slots=True)
class Blocks:
    """How the rows of a batch are laid out for `packed_attention`: the picture fills `prefix` places, text the rest."""

    prefix: int
    stretch: int  # of text; the longest question fits into two neighbours
    causal: Tensor  # [prefix, prefix], added to scores: 0 or a large negative number, as the next two
    picture: Tensor  # [B, 1, 1, prefix]
    text: Tensor  # [B, 1, 1, stretches, stretch, 2 * stretch]

    @classmethod
    def of(cls, mask: np.ndarray, prefix: int, stretch: int) -> Blocks:
        """From the whole mask [B, T, T] of rows whose pictures end at `prefix` or before."""
        text = np.pad(mask[:, prefix:, prefix:], ((0, 0), (0, 0), (stretch, 0)))
        count = text.shape[1] // stretch
        near = [text[:, i : i + stretch, i : i + 2 * stretch] for i in range(0, count * stretch, stretch)]
        causal = np.tril(np.ones((prefix, prefix), dtype=bool))
        return cls(
            prefix,
            stretch,
            _bias(causal),
            _bias(mask[:, None, prefix : prefix + 1, :prefix]),
            _bias(np.stack(near, axis=1)[:, None, None]),
        )


def _bias(mask: np.ndarray) -> Tensor:
    return torch.from_numpy(np.where(mask, np.float32(0), np.float32(-1e9))).to(torch.bfloat16)


@lru_cache(maxsize=65536)
def encode(text: str, marks: Markup = PLAIN) -> tuple[int, ...]:
    return tuple(_tokenizer(marks)(text, add_special_tokens=False)["input_ids"])


@lru_cache(maxsize=3)
def _tokenizer(marks: Markup) -> Any:
    return build_tokenizer("smol" if marks is SMOL else "tiny-qwen3" if marks is CHATML else "tiny-qwen")


class Packer:
    """Turns examples into the tensors of one model family."""

    def __init__(self, model: Any, image_processor: Any) -> None:
        self.processor = image_processor
        config = model.config
        self.native = hasattr(config.vision_config, "spatial_merge_size")
        self.markup = markup(config.model_type)
        self.in_blocks = config._attn_implementation == ATTENTION  # noqa: SLF001
        self.marks = config.model_type != "llava"
        self.window = getattr(config.text_config, "sliding_window", None)
        self.two_way = config.model_type.startswith("gemma3")  # the visual tokens of an image see each other
        vision = config.vision_config
        self.side = 0
        if not self.native:
            tokens = getattr(config, "mm_tokens_per_image", 0) or (vision.image_size // vision.patch_size) ** 2
            self.side = round(tokens**0.5)

    def grids(self, pixels: dict[str, Tensor], count: int) -> list[tuple[int, int]]:
        if not self.native:
            return [(self.side, self.side)] * count
        merge = self.processor.merge_size
        return [(int(h) // merge, int(w) // merge) for _, h, w in pixels["image_grid_thw"].tolist()]

    def __call__(self, given: list[TrainingExample]) -> PackedBatch:
        ids = token_ids(self.markup)
        found = self.processor(images=[example.image for example in given], return_tensors="pt")
        pixels = {name: found[name] for name in ("pixel_values", "image_grid_thw") if name in found}
        grids = self.grids(pixels, len(given))
        rows = []
        tasks: list[str] = []
        for example, (height, width) in zip(given, grids, strict=True):
            row = _Row(self.markup, height, width, marks=self.marks, mrope=self.native)
            for task, question, answer in example.questions:
                row.add(question, answer, len(tasks))
                tasks.append(task)
            rows.append(row)
        in_blocks = self.in_blocks and bool(tasks)
        prefix = max(row.prefix for row in rows) if in_blocks else 0  # 0: text follows its picture at once
        stretch = max(row.longest for row in rows)
        longest = max(len(row.ids) for row in rows)
        if in_blocks:
            text = max(len(row.ids) - row.prefix for row in rows)
            longest = prefix + -(-text // stretch) * stretch
        shape = (len(rows), longest)
        input_ids = np.full(shape, ids[self.markup.pad], dtype=np.int64)
        targets = np.full(shape, IGNORE, dtype=np.int64)
        asked = np.zeros(shape, dtype=np.int64)
        positions = np.zeros((3, *shape), dtype=np.int64)
        group = np.full(shape, -1, dtype=np.int64)  # 0: picture, n: question n, -1: padding
        picture = np.zeros(shape, dtype=bool)
        order = np.zeros(shape, dtype=np.int64)
        for i, row in enumerate(rows):
            place = np.arange(len(row.ids))
            place[row.prefix :] += max(0, prefix - row.prefix)
            input_ids[i, place] = row.ids
            targets[i, place[:-1]] = row.targets[1:]
            asked[i, place[:-1]] = row.asked[1:]
            positions[:, i, place] = np.asarray(row.positions).T
            group[i, place] = row.group
            order[i, place] = row.order
            picture[i] = input_ids[i] == ids[self.markup.image]
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
            Blocks.of(mask, prefix, stretch) if in_blocks else None,
        )


class _Row:
    """One packed row in the making."""

    def __init__(self, around: Markup, height: int, width: int, *, marks: bool, mrope: bool) -> None:
        self.markup, ids = around, token_ids(around)
        self.reply = [ids[token] for token in around.reply]
        self.end = ids[around.end]
        self.ids: list[int] = [ids[token] for token in around.opening] + [ids[around.image_start]] * marks
        self.positions = [(i, i, i) for i in range(len(self.ids))]
        start = len(self.ids)
        self.ids += [ids[around.image]] * (height * width)
        if mrope:
            self.positions += [(start, start + y, start + x) for y in range(height) for x in range(width)]
            self.next = start + max(height, width)
        else:
            self.positions += [(start + i,) * 3 for i in range(height * width)]
            self.next = start + height * width
        if marks:
            self.ids.append(ids[around.image_end])
            self.positions.append((self.next,) * 3)
            self.next += 1
        self.prefix = len(self.ids)
        self.targets = [IGNORE] * self.prefix
        self.asked = [0] * self.prefix
        self.group = [0] * self.prefix
        self.order = list(range(self.prefix))
        self.turns = self.longest = 0

    def add(self, question: str, answer: str, number: int) -> None:
        self.turns += 1
        ask, reply = encode(question, self.markup), encode(answer, self.markup)
        tokens = [*ask, *self.reply, *reply, self.end]
        self.longest = max(self.longest, len(tokens))
        self.ids += tokens
        self.positions += [(self.next + i,) * 3 for i in range(len(tokens))]
        self.order += [self.prefix + i for i in range(len(tokens))]
        self.targets += [IGNORE] * (len(ask) + len(self.reply)) + [*reply, self.end]
        self.asked += [number] * len(tokens)
        self.group += [self.turns] * len(tokens)


def packed_attention(
    module: nn.Module,  # noqa: ARG001
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,  # noqa: ARG001
    scaling: float,
    blocks: Blocks | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention that computes what a packed row needs and no more, in the precision of its inputs.

    The picture looks at itself; a question looks at the picture and at the two stretches of text that hold it. Without
    blocks, in the tower, all look at all. [B, H, T, D] -> [B, T, H, D]. In bfloat16 on a CPU, plain products take a third
    of the time of `scaled_dot_product_attention`.
    """
    batch, heads, length, size = query.shape
    query, shared = query * scaling, key.shape[1]
    if blocks is None:
        found = (query @ key.transpose(2, 3)).softmax(-1) @ value
        return found.transpose(1, 2), None
    prefix, stretch = blocks.prefix, blocks.stretch
    groups, count = heads // shared, (length - prefix) // stretch
    keys, values = key[:, :, :prefix], value[:, :, :prefix]
    scores = query[:, :, :prefix].reshape(batch, shared, groups * prefix, size) @ keys.transpose(2, 3)
    scores = scores.view(batch, shared, groups, prefix, prefix) + blocks.causal
    picture = scores.softmax(-1).view(batch, shared, groups * prefix, prefix) @ values
    asked = query[:, :, prefix:].reshape(batch, shared, -1, size)
    to_picture = asked @ keys.transpose(2, 3) + blocks.picture
    near_keys, near_values = (_with_stretch_before(each[:, :, prefix:], stretch) for each in (key, value))
    text = (batch, shared, groups, count, stretch)
    to_text = asked.view(*text, size) @ near_keys.transpose(-1, -2) + blocks.text
    weights = torch.cat([to_picture.view(*text, prefix), to_text], dim=-1).softmax(-1)
    questions = (weights[..., :prefix].reshape(batch, shared, -1, prefix) @ values).view(*text, size)
    questions = questions + weights[..., prefix:] @ near_values
    parts = [picture.view(batch, heads, prefix, size), questions.reshape(batch, heads, -1, size)]
    return torch.cat(parts, dim=2).transpose(1, 2), None


def _with_stretch_before(states: Tensor, stretch: int) -> Tensor:
    """[B, S, T, D] -> [B, S, 1, stretches, 2 * stretch, D]: each stretch behind the one before it."""
    batch, shared, _, size = states.shape
    parts = states.reshape(batch, shared, -1, stretch, size)
    before = nn.functional.pad(parts, (0, 0, 0, 0, 1, 0))[:, :, :-1]
    return torch.cat([before, parts], dim=3).unsqueeze(2)


AttentionInterface.register(ATTENTION, packed_attention)


def visual_tokens(model: Any, pixels: dict[str, Tensor]) -> Levels:
    """Features of the visual tokens of all images."""
    found = model.model.get_image_features(**pixels, return_dict=True)
    levels = [found.pooler_output, *(getattr(found, "deepstack_features", None) or ())]
    joined = [torch.cat(list(level), dim=0) if isinstance(level, list | tuple) else level for level in levels]
    return tuple(level.reshape(-1, level.shape[-1]) for level in joined)


def answers(model: Any, batch: PackedBatch, features: Levels) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [A, V], targets [A] and question numbers [A] of every answer token of the batch."""
    embedded = model.get_input_embeddings()(batch.input_ids)
    where = batch.input_ids == model.config.image_token_id
    embedded = embedded.masked_scatter(where.unsqueeze(-1), features[0].to(embedded.dtype))
    extra: dict[str, Any] = (
        {"visual_pos_masks": where, "deepstack_visual_embeds": list(features[1:])} if len(features) > 1 else {}
    )
    if batch.blocks is not None:
        extra["blocks"] = batch.blocks
    mask: Any = batch.mask
    if batch.sliding is not None:
        mask = {"full_attention": batch.mask, "sliding_attention": batch.sliding}
    positions = batch.position_ids if model.config.model_type.startswith("qwen") else batch.position_ids[0]
    hidden = model.get_decoder()(
        inputs_embeds=embedded, attention_mask=mask, position_ids=positions, use_cache=False, **extra
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
