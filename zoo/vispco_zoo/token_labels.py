"""Labels of the visual tokens: what each one shows, and the small heads that predict it while the tower is trained.

The heads are not part of the finished model. With them a tower of a few layers learns to read in minutes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vispco.data.scene import COLORS, COLUMN_HEADERS, DIGITS, LETTERS, ROW_HEADERS, SHAPES
from vispco_zoo.tokenizer import CODE_WORDS, token_ids

if TYPE_CHECKING:
    from vispco.data.scene import Scene

_BINS = 6  # of the picture's width and height
_SIZES = (0.0, 0.125, 0.15, 0.175, 0.2)

_NAMES = {
    "shape": {name: i + 1 for i, name in enumerate(SHAPES)},
    "color": {name: i + 1 for i, name in enumerate(COLORS)},
    "char": {name: i + 1 for i, name in enumerate(LETTERS + DIGITS)},
    "row": {name: i + 1 for i, name in enumerate(ROW_HEADERS)},
    "column": {name: i + 1 for i, name in enumerate(COLUMN_HEADERS)},
}
CLASSES = {
    **{field: len(names) + 1 for field, names in _NAMES.items()},
    "index": 5,
    "size": len(_SIZES) + 1,
    "center": 2,
    "x": _BINS,
    "y": _BINS,
}
_WEIGHT = {"char": 3.0, "shape": 1.5, "row": 1.5, "column": 1.5, "x": 0.5, "y": 0.5}
_PRIORITY = {"glyph": 3.0, "object": 2.0, "sign": 1.0, "bar": 1.0}


def token_labels(scene: Scene, height: int, width: int) -> np.ndarray:
    """[height * width, fields]: for each visual token of the grid, the classes of the mark that it mostly shows."""
    marks = [mark for mark in scene.marks if mark.kind in _PRIORITY]
    grid = np.zeros((height, width, len(CLASSES)), dtype=np.int64)
    if marks:
        boxes = np.asarray([mark.box for mark in marks], dtype=np.float64)  # [M, 4]
        x = np.arange(width) / width
        y = np.arange(height) / height
        over_x = np.minimum(x + 1 / width, boxes[:, 2:3]) - np.maximum(x, boxes[:, 0:1])  # [M, W]
        over_y = np.minimum(y + 1 / height, boxes[:, 3:4]) - np.maximum(y, boxes[:, 1:2])
        area = over_x.clip(0)[:, None, :] * over_y.clip(0)[:, :, None]  # [M, H, W]
        least = np.minimum((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1]), 1 / (width * height))
        share = area / least[:, None, None]
        share[share < 0.2] = 0
        rank = share + np.asarray([_PRIORITY[mark.kind] for mark in marks])[:, None, None] * (share > 0)
        named = [[names.get(getattr(mark, field), 0) for field, names in _NAMES.items()] for mark in marks]
        sizes = [np.searchsorted(_SIZES, mark.size, side="right") * (mark.kind == "object") for mark in marks]
        values = np.asarray([[*own, mark.index, size, 0] for own, mark, size in zip(named, marks, sizes, strict=True)])
        best = rank.argmax(axis=0)
        shown = np.take_along_axis(rank, best[None], axis=0)[0] > 0
        grid[:, :, : values.shape[1]] = values[best] * shown[:, :, None]
        center = list(CLASSES).index("center")
        for mark in marks:
            if mark.kind == "object":
                cx, cy = mark.center
                grid[min(height - 1, int(cy * height)), min(width - 1, int(cx * width)), center] = 1
    grid[:, :, -2] = ((np.arange(width) + 0.5) * _BINS / width).astype(np.int64)[None, :]
    grid[:, :, -1] = ((np.arange(height) + 0.5) * _BINS / height).astype(np.int64)[:, None]
    return grid.reshape(height * width, len(CLASSES))


_TIED = {"shape": SHAPES, "color": tuple(COLORS), "char": tuple(LETTERS + DIGITS)}  # fields whose values are words


class TokenLabelHeads(nn.Module):
    """Heads over a visual token as the language model receives it.

    For shapes, colours and characters the head is the language model's own word embedding: a token that shows a red
    circle is trained towards the embeddings of "red" and of "circle". To find what a question names, the language
    model then only has to match like with like.
    """

    def __init__(
        self,
        embed: nn.Module,
        width: int,
        *,
        codes: bool = False,
        ids: dict[str, int] | None = None,
        named_codes: bool = False,
    ) -> None:
        """`codes`: the other fields, too, are written in fixed vectors of a word's length, so that none drowns.

        named_codes: half of such a vector is the embedding of a word that means the same.
        """
        super().__init__()
        ids = token_ids() if ids is None else ids
        with torch.no_grad():
            words = [embed(torch.tensor([ids[word] for word in names])) for names in _TIED.values()]
            self.scale = 12.0 / float(torch.cat(words).square().sum(dim=1).mean())
        self.words = [part.clone() for part in words]
        self.nothing = nn.Parameter(torch.full((len(_TIED),), 4.0))
        self.free = {field: count for field, count in CLASSES.items() if field not in _TIED}
        self.norm: nn.Module = nn.LayerNorm(width)
        self.head = nn.Linear(width, sum(self.free.values()))
        if codes:
            self.norm = nn.Identity()
            named = {}
            if named_codes:
                named = {field: embed(torch.tensor([ids[w] for w in names])) for field, names in CODE_WORDS.items()}
            self._fix(float(torch.cat(words).std()), named)

    @torch.no_grad()
    def _fix(self, deviation: float, named: dict[str, Tensor]) -> None:
        """Random weights that stay as they are; "nothing" is the zero vector with the margin of a missing word.

        named: embeddings [classes that show something, D] that fields are mixed with.
        """
        weight = torch.randn(self.head.weight.shape, generator=torch.Generator().manual_seed(0)) * deviation
        bias = torch.zeros(len(weight))
        start = 0
        for field, count in self.free.items():
            if field not in ("x", "y"):
                weight[start], bias[start] = 0.0, 4.0
            if field in named:
                part = weight[start + count - len(named[field]) : start + count]
                part.add_(named[field]).mul_(0.5**0.5)
            start += count
        self.head.weight.copy_(weight * self.scale)
        self.head.bias.copy_(bias)
        self.head.requires_grad_(requires_grad=False)

    def logits(self, features: Tensor) -> dict[str, Tensor]:
        """[N, classes] of each field."""
        found = {}
        for place, (field, words) in enumerate(zip(_TIED, self.words, strict=True)):
            nothing = self.nothing[place].expand(len(features), 1)
            found[field] = torch.cat([nothing, self.scale * features @ words.T], dim=1)
        parts = self.head(self.norm(features)).split(list(self.free.values()), dim=1)
        return found | dict(zip(self.free, parts, strict=True))

    def forward(self, features: Tensor, targets: Tensor) -> tuple[Tensor, dict[str, float]]:
        """Mean cross-entropy of features [N, D] against labels [N, fields], and accuracy where something is shown."""
        logits = self.logits(features)
        weight = 0.15 + (targets[:, :5].sum(dim=1) > 0).float()
        weight = weight / weight.sum()
        loss = torch.zeros(())
        right: dict[str, float] = {}
        for place, field in enumerate(CLASSES):
            part, target = logits[field], targets[:, place]
            loss = loss + _WEIGHT.get(field, 1.0) * (cross_entropy(part, target, reduction="none") * weight).sum()
            with torch.no_grad():
                there = target > 0
                right[field] = float((part.argmax(dim=1) == target)[there].float().mean()) if there.any() else 1.0
        return loss / len(CLASSES), right
