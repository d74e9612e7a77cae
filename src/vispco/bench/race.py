"""`race`: contenders against the unpruned model, interleaved in one run, after a round that warms up."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vispco import cost
from vispco.bench.contender import Contender
from vispco.bench.prefill import by_part, counted_flops, generated
from vispco.bench.row import BenchRow, paired, summary
from vispco.cost import Site
from vispco.errors import InvalidInputError
from vispco.evaluation.encoded import Encoded, encode, pad_token
from vispco.families import family_of

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.pruner import Pruner

Progress = Callable[[int, int, str], None]
PARTS = ("vision", "predictor", "scoring", "language")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """rounds: timed ones, after one that is not. batch_size: prompts at once. new_tokens: decoded by every contender."""

    rounds: int = 5
    batch_size: int = 1
    new_tokens: int = 16

    def __post_init__(self) -> None:
        if self.rounds < 1 or self.batch_size < 1 or self.new_tokens < 2:
            raise InvalidInputError(
                f"rounds={self.rounds}, batch_size={self.batch_size}, new_tokens={self.new_tokens} were given. "
                "Give 1, 1 and 2 or more."
            )


@dataclass(eq=False)
class _Log:
    """Everything measured of one contender, in the order of rounds and prompts; FLOPs of each prompt once."""

    first: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    kv_bytes: list[int] = field(default_factory=list)
    layers_flops: list[int] = field(default_factory=list)
    all_flops: list[int] = field(default_factory=list)


def race(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    contenders: Sequence[Contender],
    settings: Settings | None = None,
    *,
    on_progress: Progress = lambda _done, _total, _text: None,
) -> list[BenchRow]:
    """A row for the unpruned model, and one for each contender, in their order."""
    settings = settings or Settings()
    names = [contender.name for contender in contenders]
    if len({*names, Contender.unpruned().name}) != len(names) + 1:
        raise InvalidInputError(
            f"The contenders {', '.join(names)} have a name twice (or `unpruned`). Give each its own."
        )
    if not samples:
        raise InvalidInputError("No samples were given. Give at least one prompt to time.")
    everyone = [Contender.unpruned(), *contenders]
    pruners = {contender.name: contender.pruner() for contender in everyone}
    size = settings.batch_size
    prompts = [encode(model, processor, samples[at : at + size]) for at in range(0, len(samples), size)]
    logs = {name: _Log() for name in pruners}
    steps, done = (settings.rounds + 1) * len(prompts) * len(everyone), 0
    for number in range(settings.rounds + 1):
        for encoded in prompts:
            order = list(pruners) if number % 2 else list(reversed(pruners))
            for name in order:
                on_progress(done, steps, f"{name}, {'warming up' if number == 0 else f'round {number}'}")
                if number == 0:
                    _count(model, encoded, pruners[name], logs[name])
                _time(model, encoded, pruners[name], logs[name], settings, pad_token(processor), keep=number > 0)
                done += 1
    on_progress(steps, steps, "done")
    whole = logs[everyone[0].name]
    return [_row(contender, pruners[contender.name], logs[contender.name], whole) for contender in everyone]


def _time(
    model: Any, encoded: Encoded, pruner: Pruner | None, log: _Log, settings: Settings, pad: int, *, keep: bool
) -> None:
    tokens = generated(model, encoded, pruner, settings.new_tokens, pad)
    parts = by_part(model, encoded, pruner)
    if keep:
        log.first.append(tokens.first)
        log.rate.append(tokens.number / tokens.rest)
        for name in PARTS:
            log.parts[name].append(getattr(parts, name))


def _count(model: Any, encoded: Encoded, pruner: Pruner | None, log: _Log) -> None:
    """FLOPs and bytes do not depend on the round."""
    parts = by_part(model, encoded, pruner)
    site: Site | tuple[Site, ...] = "entry"
    if pruner is not None:
        site = pruner.chain.sites(len(family_of(model).layers(model)))
    workload = cost.Workload(encoded.num_text, encoded.num_visual, site)
    log.layers_flops.append(int(cost.get("exact", model.config).price(parts.counts, workload).sum()))
    log.all_flops.append(counted_flops(model, encoded, pruner))
    log.kv_bytes.append(parts.kv_bytes)


def _row(contender: Contender, pruner: Pruner | None, log: _Log, whole: _Log) -> BenchRow:
    return BenchRow(
        configuration=contender.name,
        scorer=None if pruner is None else pruner.scorer.name,
        budget=contender.budget,
        flops=sum(log.layers_flops) / sum(whole.layers_flops),
        ttft_ms=summary(log.first),
        speedup={
            "ttft": paired(whole.first, log.first),
            "ttft_implied": sum(whole.all_flops) / sum(log.all_flops),
            "language": paired(whole.parts["language"], log.parts["language"]),
            "language_implied": sum(whole.layers_flops) / sum(log.layers_flops),
        },
        decode_tokens_per_second=statistics.median(log.rate),
        kv_bytes=round(statistics.mean(log.kv_bytes)),
        parts_ms={name: 1e3 * statistics.median(log.parts[name]) for name in PARTS},
    )
