"""KL divergence of a pruned model's answers from those of the unpruned model, for the search and the evaluator.

`answer_logits` is teacher forcing: one forward pass, pruned or not. `KlMeter` compares two of them. `Reference` keeps the
log-probabilities of the unpruned model, so that they are computed once and compared with every schedule.

Of a large vocabulary, the `TOP_TOKENS` likeliest tokens are kept and the probability of all others together, which counts
as one token: 4 KB an answer token in place of 600. So the KL is never above the exact one, and below it by the KL
inside the rest, times its mass.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.engine import answers_at
from vispco.evaluation.caches import GIB, TensorCache

if TYPE_CHECKING:
    from vispco.evaluation.encoded import Encoded

Direction = Literal["pruned||full", "full||pruned"]
TOP_TOKENS = 512


def answer_logits(model: Any, encoded: Encoded, **options: Any) -> Tensor:
    """Logits at the positions that predict answer tokens: [B, A, V]; `encoded.answer_mask` [B, A] says which are real.

    Shifted by one: place a predicts the a-th of the last A tokens. A pruner on the model knows where the answers are, and
    the model computes no loss. The output head runs on these positions alone.
    """
    if encoded.labels is None:
        raise InvalidInputError("This batch was encoded without its answers. Encode it with answers=True.")
    keep = max(encoded.answer_lengths) + 1
    with answers_at(encoded.labels != -100):
        out = model(**encoded.inputs, logits_to_keep=keep, **{"use_cache": False, **options})
    logits: Tensor = out.logits
    return logits[:, -keep:-1]


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
        """Log-probabilities of the unpruned model at the answers, see `top_log_probabilities`: [B, A, T]. No pruner may be on it."""
        return torch.stack([top_log_probabilities(log_probabilities(row)) for row in answer_logits(model, encoded)])

    def __call__(self, pruned_logits: Tensor, teacher: Tensor, mask: Tensor) -> Tensor:
        """KL of each sample: [B], from the pruned model's logits [B, A, V]; mask: bool [B, A]. Differentiable in both.

        teacher: [B, A, T], see `top_log_probabilities`. Samples are compared one by one, so that a large vocabulary fits.
        """
        if teacher.shape[-1] == pruned_logits.shape[-1]:
            each = self._compare(log_probabilities(pruned_logits), teacher)
        else:
            found = []
            for row, own in zip(pruned_logits, teacher, strict=True):  # [A, V], [A, 2 * TOP_TOKENS + 1]
                pruned, index = log_probabilities(row), own[:, TOP_TOKENS:-1].long()
                rest = pruned.scatter(-1, index, -torch.inf).logsumexp(
                    -1, keepdim=True
                )  # all others count as one token
                known = torch.cat([own[:, :TOP_TOKENS], own[:, -1:]], dim=-1)
                found.append(self._compare(torch.cat([pruned.gather(-1, index), rest], dim=-1), known))
            each = torch.stack(found)
        return each.masked_fill(~mask, 0.0).sum(-1) / mask.sum(-1)

    def _compare(self, pruned: Tensor, teacher: Tensor) -> Tensor:
        """KL [..., A] of log-probabilities [..., A, V]."""
        p, q = (pruned, teacher) if self.direction == "pruned||full" else (teacher, pruned)
        return (p.exp() * (p - q)).sum(-1)


def top_log_probabilities(full: Tensor) -> Tensor:
    """Log-probabilities [A, V] as they are kept: themselves where V is small, else [A, 2 * TOP_TOKENS + 1].

    Those are the largest ones, the numbers of their tokens, and the logarithm of what the other tokens hold together.
    """
    if full.shape[-1] <= 4 * TOP_TOKENS:
        return full
    top, index = full.topk(TOP_TOKENS, dim=-1)
    rest = full.scatter(-1, index, -torch.inf).logsumexp(-1, keepdim=True)
    return torch.cat([top, index.to(top), rest], dim=-1)  # float32 holds whole numbers up to 16 million


def log_probabilities(logits: Tensor) -> Tensor:
    return logits.float().log_softmax(-1)


class Reference:
    """Teacher-forced log-probabilities of the full model by sample. memory: see `TensorCache`."""

    def __init__(self, model: Any, *, memory: int = GIB) -> None:
        self.model = model
        self.cache = TensorCache(memory)

    def has(self, encoded: Encoded) -> bool:
        return all(key in self.cache for key in encoded.ids)

    def compute(self, encoded: Encoded) -> None:
        """Run the unpruned model on a batch with answers. No pruner may be on it."""
        found = KlMeter().teacher(self.model, encoded).cpu()
        for key, row, length in zip(encoded.ids, found, encoded.answer_lengths, strict=True):
            self.cache.put(key, {"logp": row[-length:].clone()})  # answers end together, at the right

    def log_probs(self, encoded: Encoded) -> Tensor:
        """[B, A, T], zeros before a shorter answer begins; computed now where they are not known yet."""
        if not self.has(encoded):
            self.compute(encoded)
        rows = [self.cache.get(key)["logp"] for key in encoded.ids]
        out = rows[0].new_zeros(len(rows), max(encoded.answer_lengths), rows[0].shape[-1])
        for room, row in zip(out, rows, strict=True):
            room[-len(row) :] = row
        return out.to(self.model.device)

    def kl(self, pruned_logits: Tensor, encoded: Encoded, direction: Direction = "pruned||full") -> Tensor:
        """KL of each sample, [B], from `answer_logits` of the pruned model on the same batch; differentiable in them."""
        return KlMeter(direction)(pruned_logits, self.log_probs(encoded), encoded.answer_mask)
