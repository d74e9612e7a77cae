"""`KlMeter`: how far a pruned model's answers are from the unpruned model's. The search and the evaluator share it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from vispco.errors import UnknownNameError
from vispco.evaluation.teacher_forcing import answer_logits

if TYPE_CHECKING:
    from vispco.evaluation.encoded import Encoded

Direction = Literal["pruned||full", "full||pruned"]


@dataclass(frozen=True)
class KlMeter:
    """KL divergence on the positions that predict answer tokens, the mean over each sample's positions.

    direction: 'pruned||full' is the paper's: the sum over the vocabulary of p_pruned log(p_pruned / p_full).
    """

    direction: Direction = "pruned||full"

    def __post_init__(self) -> None:
        if self.direction not in get_args(Direction):
            raise UnknownNameError("direction", self.direction, list(get_args(Direction)))

    @torch.no_grad()
    def teacher(self, model: Any, encoded: Encoded) -> Tensor:
        """What the unpruned model says: log-probabilities [B, A, V] at the answers. No pruner may be on it."""
        return log_probabilities(answer_logits(model, encoded))

    def __call__(self, pruned_logits: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
        """KL of each sample: [B], from the pruned model's logits [B, A, V]; mask: bool [B, A]. Differentiable in both."""
        pruned = log_probabilities(pruned_logits)
        p, q = (pruned, teacher) if self.direction == "pruned||full" else (teacher, pruned)
        each = (p.exp() * (p - q)).sum(-1)  # [B, A]
        return each.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1)


def log_probabilities(logits: Tensor) -> Tensor:
    return logits.float().log_softmax(-1)
