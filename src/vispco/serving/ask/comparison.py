"""`compare`: ask a model twice, with all visual tokens and with what a pruner leaves, and measure both."""

from __future__ import annotations

import statistics
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import torch

from vispco import cost
from vispco.core.errors import InvalidInputError
from vispco.cost import Workload
from vispco.evaluation.encoded import Encoded, encode, pad_token
from vispco.evaluation.survivors import layers_of_tokens, token_grid
from vispco.families import family_of
from vispco.timing.clock import TokenClock, now

if TYPE_CHECKING:
    from vispco.pruner.pruner import Pruner
    from vispco.serving.ask.picture_question import PictureQuestion


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

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class _Run:
    answer: str
    number: int
    first: float
    whole: float


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
    encoded = encode(model, processor, [sample])
    layers = len(family_of(model).layers(model))
    shown = encode(model, processor, [sample], pruner=pruner)
    recording = type(pruner)(pruner.chain, pruner.schedule, mode=pruner.mode, record=True, pixels=pruner.pixels)
    recording.prepare(processor)
    if unpruned is None:
        _answer(model, processor, encoded, None, max_new_tokens)
    with recording(model):
        _answer(model, processor, shown, None, max_new_tokens)
        counts, load = recording.token_counts(model), recording.workload(model)
        depth = _depth(model, shown, recording)
    whole: list[_Run] = []
    fewer: list[_Run] = []
    for _ in range(max(rounds, 1)):
        if unpruned is None:
            whole.append(_answer(model, processor, encoded, None, max_new_tokens))
        fewer.append(_answer(model, processor, shown, pruner, max_new_tokens))
    full = torch.tensor(encoded.num_visual)[:, None].expand(-1, layers)
    return AnswerComparison(
        question=sample.question,
        method=str(pruner.chain),
        unpruned=unpruned or _reply(model, encoded, whole, full, Workload(encoded.num_text, encoded.num_visual)),
        pruned=_reply(model, encoded, fewer, counts, load),
        layers=layers,
        depth=depth,
    )


@torch.no_grad()
def _answer(model: Any, processor: Any, encoded: Encoded, pruner: Pruner | None, max_new_tokens: int) -> _Run:
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
    return _Run(answer=text.strip(), number=int(own.shape[1]), first=clock.times[0] - start, whole=end - start)


def _reply(model: Any, encoded: Encoded, runs: list[_Run], counts: torch.Tensor, workload: Workload) -> Reply:
    price = cost.get("exact", model.config)
    flops = float(price.bill(counts, workload)[0])
    return Reply(
        answer=runs[0].answer,
        new_tokens=runs[0].number,
        visual_tokens=tuple(counts[0].tolist()),
        text_tokens=encoded.num_text[0],
        flops=flops,
        fraction=flops / float(price.full(Workload(encoded.num_text, encoded.num_visual))[0]),
        first_token_ms=1e3 * statistics.median(run.first for run in runs),
        milliseconds=1e3 * statistics.median(run.whole for run in runs),
    )


def _depth(model: Any, encoded: Encoded, pruner: Pruner) -> tuple[tuple[int, ...], ...] | None:
    try:
        place, rows, columns = token_grid(model, encoded)
        depth = layers_of_tokens(pruner.survivors(model))
    except InvalidInputError:
        return None
    packed = depth.new_zeros(rows * columns).scatter(0, place, depth[: len(place)])
    return tuple(tuple(row) for row in packed.view(rows, columns).tolist())
