"""Requests per second with a mixed queue of pictures, decoded tokens per second and KV bytes: pruned against unpruned."""

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import torch

from vispco.data.sample import Sample
from vispco.evaluation.encoded import encode, pad_token
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.timing.prefill import kv_bytes, last_logits, time_generation
from vispco.timing.timing import resolve_candidates

_BATCHES = (1, 4, 16)
_SECONDS = 120.0  # about which all of it ends
Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, kw_only=True)
class _ThroughputRow:
    """One configuration at one batch size. kv_bytes: of all samples of a batch after the prefill, the mean over batches."""

    configuration: str
    batch_size: int
    requests_per_second: float
    decode_tokens_per_second: float
    kv_bytes: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class QueueSettings:
    """The batch sizes in which a queue is answered, how long answers are, and how often it is repeated.

    most_seconds: when they are over, no further round begins, and sizes that were not begun are left out.
    """

    batches: tuple[int, ...] = _BATCHES
    new_tokens: int = 8
    rounds: int = 2
    most_seconds: float = _SECONDS


@torch.no_grad()
def measure_throughput(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    candidates: Mapping[str, PrunerSpec],
    settings: QueueSettings | None = None,
    *,
    on_progress: Progress = lambda _done, _total, _text: None,
) -> list[_ThroughputRow]:
    """Every candidate and the unpruned model answer the whole queue, interleaved, in batches of each size.

    The queue has as many requests as the largest batch; samples come again until it is full, and those beyond are left
    out.
    What was begun is ended: every row has a round.
    """
    settings = settings or QueueSettings()
    batches, rounds = settings.batches, settings.rounds
    queue = [samples[place % len(samples)] for place in range(max(batches))]
    end = time.monotonic() + settings.most_seconds
    pad = pad_token(processor)
    rows: list[_ThroughputRow] = []
    steps, done = len(batches) * (rounds + 1) * (len(candidates) + 1), 0
    for size in batches:
        if rows and time.monotonic() > end:
            break
        pruners = resolve_candidates(candidates, model)
        prompts = {
            name: [encode(model, processor, queue[at : at + size], pruner=own) for at in range(0, len(queue), size)]
            for name, own in pruners.items()
        }
        seconds: dict[str, list[float]] = {name: [] for name in pruners}
        rates: dict[str, list[float]] = {name: [] for name in pruners}
        for number in range(rounds + 1):
            if number > 1 and time.monotonic() > end:
                break
            for name, pruner in pruners.items():
                on_progress(done, steps, f"{name}, queue in batches of {size}")
                done += 1
                timed = [time_generation(model, encoded, pruner, settings.new_tokens, pad) for encoded in prompts[name]]
                if number:  # the first round warms up
                    seconds[name].append(sum(tokens.first + tokens.rest for tokens in timed))
                    rates[name].append(sum(tokens.number for tokens in timed) / sum(tokens.rest for tokens in timed))
        for name, pruner in pruners.items():
            held = []
            for encoded in prompts[name]:
                with nullcontext() if pruner is None else pruner(model):
                    out = model(**encoded.inputs, use_cache=True, **last_logits(model))
                held.append(kv_bytes(out.past_key_values))
            rows.append(
                _ThroughputRow(
                    configuration=name,
                    batch_size=size,
                    requests_per_second=len(queue) / statistics.median(seconds[name]),
                    decode_tokens_per_second=statistics.median(rates[name]),
                    kv_bytes=round(statistics.mean(held)),
                )
            )
    on_progress(steps, steps, "done")
    return rows
