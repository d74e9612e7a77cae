"""Batches of similar samples: little of a batch is padding, and answers end at about the same time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.evaluation.encoded import answer_tokens, conversation

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.data.sample import Sample


@dataclass(frozen=True, eq=False)
class SampleBatch:
    """Some samples, and their places among all."""

    rows: tuple[int, ...]
    samples: tuple[Sample, ...]


def batches(samples: Sequence[Sample], size: int, answer_lengths: Sequence[int]) -> list[SampleBatch]:
    """Cut samples into batches by length of the answer, then picture area (which orders visual tokens), then question.

    The cut depends on the samples only, not on their order, so neither does anything that is computed from it.
    """
    if size < 1:
        raise InvalidInputError(f"batch_size={size} was given. Give 1 or more.")
    if not samples:
        raise InvalidInputError("No samples were given. An evaluation needs at least one.")
    ids = [sample.id for sample in samples]
    if len(set(ids)) != len(ids):
        twice = next(key for key in ids if ids.count(key) > 1)
        raise InvalidInputError(f"The sample {twice!r} is there twice. Every sample needs an id of its own.")
    keys = [(length, s.area, len(s.question), s.id) for s, length in zip(samples, answer_lengths, strict=True)]
    order = sorted(range(len(samples)), key=keys.__getitem__)
    parts = [order[start : start + size] for start in range(0, len(order), size)]
    return [SampleBatch(tuple(part), tuple(samples[row] for row in part)) for part in parts]


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
