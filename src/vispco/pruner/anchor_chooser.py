"""A predictor's choice among its anchors at one budget, with all that does not depend on a sample computed beforehand."""

from __future__ import annotations

import numpy as np
from torch import Tensor

from vispco.core.layout import Array, TokenLayout
from vispco.pruner.batch_regression import BatchRegression
from vispco.pruner.predictor import Predictor

WIDEST = 1e6  # of a bandwidth


class AnchorChooser:
    """For a predictor that remembers samples and adds no offset to the anchor that it chooses (see `of`)."""

    def __init__(self, predictor: Predictor, budget: float) -> None:
        assert predictor.memory is not None  # noqa: S101 - `of` has asked
        self.params = predictor.anchors.detach().double().cpu()  # [K, P]
        low, high = predictor.budget_range.detach().cpu().numpy().T
        number = np.float32(budget)
        self.in_range = np.flatnonzero((low <= number) & (number < high))
        bandwidth = predictor.memory.bandwidth.cpu().numpy()[self.in_range]
        shared = min(bandwidth.min(initial=np.inf), WIDEST)  # the anchors of a budget share theirs
        self.reader = BatchRegression(predictor.memory, self.in_range, np.full(len(self.in_range), shared, np.float32))

    @classmethod
    def of(cls, predictor: Predictor, budget: float) -> AnchorChooser | None:
        """None for a predictor that chooses in another way, or may move its anchors."""
        moves = bool(predictor.offset.weight.any()) or bool(predictor.offset.bias.any())
        return None if moves or predictor.memory is None else cls(predictor, budget)

    def flops(self, sizes: Array) -> Array:
        """FLOPs of a choice for samples [B, 2 or more] of so many text and visual tokens: int64 [B]."""
        return np.zeros(len(sizes), dtype=np.int64) if len(self.in_range) < 2 else self.reader.flops(sizes)

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> Array:
        """The anchor of each sample: int64 [B], on the host. embeddings: [B, N, D], what enters the language model."""
        if len(self.in_range) < 2:
            return np.full(layout.batch_size, self.in_range[0] if len(self.in_range) else 0)
        chosen: Array = self.in_range[self.reader.estimate(layout, embeddings).argmin(-1)]
        return chosen
