"""VTW: all visual tokens leave at one layer.

Lin et al., "Boosting Multimodal Large Language Models with Visual Tokens Withdrawal" (AAAI 2025). Nothing is scored: from
layer K on the model continues with text alone. Faithful with a schedule that keeps none (`Schedule.withdraw`); one that keeps
some keeps the first ones. How the paper finds K is `vispco.compare.searches`' search of the same name.
"""

import torch
from torch import Tensor

from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class Withdrawal(Scorer):
    """No token is better than another."""

    name = "vtw"
    needs_attention = False

    def score(self, context: ScoringContext) -> Tensor:
        return torch.zeros(context.live.shape, device=context.live.device)
