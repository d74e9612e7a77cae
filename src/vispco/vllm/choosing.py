"""The choice of one picture's tokens, and how their places travel with them.

vLLM caches what the vision tower gives for a picture and hands parts of it to the language model, in any step. A token's
place in its picture therefore travels in columns behind its features: two digits of base 128 for each axis, because
bfloat16 holds whole numbers exactly only up to 256.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.scorers import Scorer, ScoringContext

BASE = 128
AXES = 3
COLUMNS = 2 * AXES
GridSize = tuple[int, int, int]
"""Frames, rows and columns of a picture's tokens."""


def choose(scorer: Scorer, embeddings: Tensor, grid: GridSize, count: int) -> Tensor:
    """Which of a picture's tokens stay, in order: embeddings [N, D] as they enter the language model -> int64 [count].

    A picture is chosen alone, whatever shares its batch or its prompt, so that a cached choice is the one that would be
    made.
    """
    number = len(embeddings)
    if count >= number:
        return torch.arange(number, device=embeddings.device)
    visual = np.arange(number + 1)[None] < number  # text stands behind: the last token of a prompt never leaves
    layout = TokenLayout(visual, np.ones_like(visual), np.array([number]), embeddings.device, (grid,))
    entered = torch.cat([embeddings, embeddings.new_zeros(1, embeddings.shape[1])])[None]
    context = ScoringContext(
        layer=0,
        layout=layout,
        live=layout.is_visual_slot,
        counts=torch.tensor([count]).to(embeddings.device),
        embeddings=entered,
        merged_sizes=None,
        host_counts=(count,),
        hidden=entered[:, :number] if scorer.needs_hidden else None,
    )
    with torch.no_grad():
        keep = scorer.select(context).keep[0]  # [N]
    # The first `count` marked places in order, without asking the device how many there are.
    return torch.sort((~keep).to(torch.int8), stable=True).indices[:count]


def encode_places(places: Tensor, dtype: torch.dtype) -> Tensor:
    """Places int64 [K, AXES] below BASE ** 2 -> digits [K, COLUMNS] in the type of the features."""
    return torch.cat([places // BASE, places % BASE], dim=1).to(dtype)


def decode_places(columns: Tensor) -> Tensor:
    """Digits [K, COLUMNS] -> places int64 [K, AXES]."""
    digits = columns.round().long()
    return digits[:, :AXES] * BASE + digits[:, AXES:]


def grid_places(index: Tensor, grid: GridSize) -> Tensor:
    """Frame, row and column of each token of a picture, as M-RoPE counts them: int64 [K] -> [K, 3]."""
    _, rows, columns = grid
    return torch.stack([index // (rows * columns), index // columns % rows, index % columns], dim=1)


def line_places(index: Tensor) -> Tensor:
    """The place in line on every axis, where positions are plain numbers: int64 [K] -> [K, 3]."""
    return index[:, None].expand(-1, AXES)


def tower_batches(sizes: list[int], most: int) -> list[slice]:
    """Runs of neighbouring pictures with at most `most` tokens together; a larger picture is alone."""
    found: list[slice] = []
    start, total = 0, 0
    for place, size in enumerate(sizes):
        if place > start and total + size > most:
            found.append(slice(start, place))
            start, total = place, 0
        total += size
    return [*found, slice(start, len(sizes))]


def check_places(largest: int) -> None:
    """A picture whose places do not fit into two digits is refused."""
    if largest >= BASE**2:
        raise InvalidInputError(
            f"A picture with a place of {largest} was given; inside vLLM places up to {BASE**2 - 1} can be kept. Make the "
            "picture smaller (max_pixels)."
        )


def prompt_positions(length: int, pictures: list[tuple[int, int, int]]) -> tuple[Tensor, int]:
    """Positions of a prompt before tokens' own places are added: int64 [AXES, length], and what to add to later ones.

    pictures: (offset, tokens that are left, positions that the whole picture takes up) in order. Text counts on as if
    nothing had left; the tokens of a picture all stand at its beginning.
    """
    advance = np.ones(length, dtype=np.int64)  # from each token to the next
    for offset, left, span in pictures:
        advance[offset : offset + left] = 0
        advance[offset + left - 1] = span
    ends = np.cumsum(advance)
    line = torch.from_numpy(ends - advance)
    return line.expand(AXES, -1).clone(), int(ends[-1]) - length if length else 0
