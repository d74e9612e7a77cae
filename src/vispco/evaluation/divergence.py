"""KL divergence between a pruned and the full model, on the positions that predict answer tokens."""

from __future__ import annotations

from typing import Literal, get_args

from torch import Tensor

from vispco.errors import UnknownNameError

Direction = Literal["pruned||full", "full||pruned"]


def divergence(pruned: Tensor, full: Tensor, mask: Tensor, direction: Direction = "pruned||full") -> Tensor:
    """Log-probabilities [B, A, V] of both and mask bool [B, A] -> mean over each sample's positions, [B].

    Differentiable in both. 'pruned||full' is the paper's: the sum over the vocabulary of p_pruned log(p_pruned/p_full).
    """
    if direction not in get_args(Direction):
        raise UnknownNameError("direction", direction, list(get_args(Direction)))
    p, q = (pruned, full) if direction == "pruned||full" else (full, pruned)
    each = (p.exp() * (p - q)).sum(-1)  # [B, A]
    return each.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1)
