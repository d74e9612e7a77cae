"""`compare`: ask a model twice, with all visual tokens and with what a pruner leaves, and measure both."""

from __future__ import annotations

import statistics
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from vispco import cost
from vispco.core.errors import InvalidInputError
from vispco.cost import Workload
from vispco.evaluation.encoded import Encoded, encode, pad_token
from vispco.evaluation.survivors import layers_of_tokens, token_grid
from vispco.families import family_of
from vispco.timing.prefill import TokenClock, now

if TYPE_CHECKING:
    from vispco.pruner.pruner import Pruner
    from vispco.serving.ask.picture_question import PictureQuestion


_TimedAnswer = tuple[str, int, float, float]
"""Text, number of tokens, seconds to the first and to the last."""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """One answer and what it took.

    visual_tokens: how many each layer of the language model processed. flops, fraction: of the language model for the
    prompt (cost `exact`), and as a fraction of unpruned. first_token_ms, milliseconds: from pixels and words to the
    first token, and to the last; medians.
    """

    answer: str
    new_tokens: int
    visual_tokens: tuple[int, ...]
    text_tokens: int
    flops: float
    fraction: float
    first_token_ms: float
    milliseconds: float


@dataclass(frozen=True, kw_only=True)
class AnswerComparison:
    """Both replies, and for each token of the grid (rows, then columns) how many layers processed it.

    depth is None where the family's token grid is not known, or where the method merges tokens that come back.
    """

    question: str
    method: str
    unpruned: Reply
    pruned: Reply
    layers: int
    depth: tuple[tuple[int, ...], ...] | None


def compare(
    model: Any,
    processor: Any,
    sample: PictureQuestion,
    pruner: Pruner,
    *,
    max_new_tokens: int = 64,
    rounds: int = 3,
    unpruned: Reply | None = None,
) -> AnswerComparison:
    """Answer greedily with and without the pruner, `rounds` times in turn after one that warms up and records.

    unpruned: the reply to the same question without a pruner, where it is known already; it is not asked for again.
    """
    pruner.check(model)
    encoded, shown = encode(model, processor, [sample]), encode(model, processor, [sample], pruner=pruner)
    recording = type(pruner)(pruner.chain, pruner.schedule, mode=pruner.mode, record=True, pixels=pruner.pixels)
    recording.prepare(processor)
    if unpruned is None:
        _answer(model, processor, encoded, None, max_new_tokens)
    depth = None
    with recording(model):
        _answer(model, processor, shown, None, max_new_tokens)
        counts, load = recording.token_counts(model), recording.workload(model)
        with suppress(InvalidInputError):  # no grid, or tokens that come back
            place, rows, columns = token_grid(model, shown)
            layers_seen = layers_of_tokens(recording.survivors(model))
            packed = layers_seen.new_zeros(rows * columns).scatter(0, place, layers_seen[: len(place)])
            depth = tuple(tuple(row) for row in packed.view(rows, columns).tolist())
    whole: list[_TimedAnswer] = []
    fewer: list[_TimedAnswer] = []
    for _ in range(max(rounds, 1)):
        if unpruned is None:
            whole.append(_answer(model, processor, encoded, None, max_new_tokens))
        fewer.append(_answer(model, processor, shown, pruner, max_new_tokens))
    layers = len(family_of(model).layers(model))
    price, full_load = cost.get("exact", model.config), Workload(encoded.num_text, encoded.num_visual)

    def reply(runs: list[_TimedAnswer], counts: torch.Tensor, workload: Workload) -> Reply:
        flops = float(price.bill(counts, workload)[0])
        return Reply(
            answer=runs[0][0],
            new_tokens=runs[0][1],
            visual_tokens=tuple(counts[0].tolist()),
            text_tokens=encoded.num_text[0],
            flops=flops,
            fraction=flops / float(price.full(full_load)[0]),
            first_token_ms=1e3 * statistics.median(first for _, _, first, _ in runs),
            milliseconds=1e3 * statistics.median(last for _, _, _, last in runs),
        )

    full = torch.tensor(encoded.num_visual)[:, None].expand(-1, layers)
    return AnswerComparison(
        question=sample.question,
        method=str(pruner.chain),
        unpruned=unpruned or reply(whole, full, full_load),
        pruned=reply(fewer, counts, load),
        layers=layers,
        depth=depth,
    )


@torch.no_grad()
def _answer(model: Any, processor: Any, encoded: Encoded, pruner: Pruner | None, max_new_tokens: int) -> _TimedAnswer:
    clock = TokenClock()
    with nullcontext() if pruner is None else pruner(model):
        start = now(model.device)
        tokens = model.generate(
            **encoded.inputs,
            max_new_tokens=max_new_tokens,
            do_sample=False,
            num_beams=1,
            pad_token_id=pad_token(processor),
            streamer=clock,
        )
        end = now(model.device)
    own = tokens[:, encoded.length :]
    text: str = processor.batch_decode(own, skip_special_tokens=True)[0]
    return text.strip(), int(own.shape[1]), clock.times[0] - start, end - start
