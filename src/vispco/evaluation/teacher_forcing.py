"""Teacher forcing: the logits that predict the reference answer, from one forward pass, pruned or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from vispco.engine import answers_at
from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.evaluation.encoded import Encoded


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
