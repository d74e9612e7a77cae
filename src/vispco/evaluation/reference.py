"""The unpruned model's log-probabilities of each reference answer: computed once, kept, compared with every schedule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from vispco.evaluation.kl_meter import Direction, KlMeter
from vispco.evaluation.tensor_cache import GIB, TensorCache

if TYPE_CHECKING:
    from pathlib import Path

    from vispco.evaluation.encoded import Encoded


class Reference:
    """Teacher-forced log-probabilities of the full model by sample. memory, folder: see `TensorCache`."""

    def __init__(self, model: Any, *, memory: int = GIB, folder: str | Path | None = None) -> None:
        self.model = model
        self.cache = TensorCache(memory, folder)

    def knows(self, encoded: Encoded) -> bool:
        return all(key in self.cache for key in encoded.ids)

    def learn(self, encoded: Encoded) -> None:
        """Run the unpruned model on a batch with answers. No pruner may be on it."""
        found = KlMeter().teacher(self.model, encoded).cpu()
        for key, row, length in zip(encoded.ids, found, encoded.answer_lengths, strict=True):
            self.cache.put(key, {"logp": row[-length:].clone()})  # answers end together, at the right

    def log_probs(self, encoded: Encoded) -> Tensor:
        """[B, A, V], zeros before a shorter answer begins; learnt now where it was not."""
        if not self.knows(encoded):
            self.learn(encoded)
        rows = [self.cache.get(key)["logp"] for key in encoded.ids]
        out = rows[0].new_zeros(len(rows), max(encoded.answer_lengths), rows[0].shape[-1])
        for room, row in zip(out, rows, strict=True):
            room[-len(row) :] = row
        return out.to(self.model.device)

    def kl(self, pruned_logits: Tensor, encoded: Encoded, direction: Direction = "pruned||full") -> Tensor:
        """KL of each sample, [B], from `answer_logits` of the pruned model on the same batch; differentiable in them."""
        return KlMeter(direction)(pruned_logits, self.log_probs(encoded), encoded.answer_mask)
