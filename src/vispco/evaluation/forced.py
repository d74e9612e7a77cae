"""Teacher forcing: the logits that predict the reference answer, from one forward pass, pruned or not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch import Tensor

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.evaluation.encoded import Encoded


def answer_logits(model: Any, encoded: Encoded, **options: Any) -> Tensor:
    """Logits at the positions that predict answer tokens: [B, A, V]; `encoded.answer_mask` [B, A] says which are real.

    Shifted by one: place a predicts the a-th of the last A tokens. A pruner on the model sees where the answers are.
    The output head runs on these positions alone.
    """
    if encoded.labels is None:
        raise InvalidInputError("This batch was encoded without its answers. Encode it with answers=True.")

    def without_labels(_: Any, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        return args, {name: value for name, value in kwargs.items() if name != "labels"}

    keep = max(encoded.answer_lengths) + 1
    # The engine's hook on the model came first and has read the labels; the model itself would compute a loss on them.
    handle = model.register_forward_pre_hook(without_labels, with_kwargs=True)
    try:
        out = model(**encoded.inputs, labels=encoded.labels, logits_to_keep=keep, **{"use_cache": False, **options})
    finally:
        handle.remove()
    logits: Tensor = out.logits
    return logits[:, -keep:-1]
