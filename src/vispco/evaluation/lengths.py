"""How long the answers of samples may become."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vispco.evaluation.encoded import answer_tokens, conversation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.data.sample import Sample


def answer_limits(
    model: Any, processor: Any, samples: Sequence[Sample], given: int | None
) -> tuple[list[int], list[int]]:
    """How many tokens each sample's answer may have, and by which length samples are best put together.

    The limit is what was given, or the sample's own (a benchmark's row has one), or what the longest reference takes.
    """
    own: list[int | None] = [sample.max_new_tokens for sample in samples]
    references = [
        len(answer_tokens(model, processor, conversation(sample), sample.answer)) if limit is None else 0
        for sample, limit in zip(samples, own, strict=True)
    ]
    longest = max(references, default=1)
    limits = [given or limit or longest for limit in own]
    return limits, [limit or length for limit, length in zip(own, references, strict=True)]
