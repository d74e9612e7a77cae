"""Random scores: the baseline that any scorer must beat. The same seed keeps the same tokens.

A token's score depends only on the seed and on its place among the visual tokens, so that one sample is pruned alike
alone and in a batch, and a token that survives one layer is not drawn again at the next.
"""

import torch
from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class Random(Scorer):
    """No look at the model at all."""

    name = "random"
    needs_attention = False

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed

    def score(self, context: ScoringContext) -> Tensor:
        def draw() -> Tensor:
            generator = torch.Generator().manual_seed(self.seed)
            return torch.rand(context.live.shape[1], generator=generator).to(context.live.device)

        return context.once("random", draw).expand_as(context.live)
