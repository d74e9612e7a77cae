"""`time_candidates`: candidates and the unpruned model, interleaved in one run, after a warm-up round."""

import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from vispco import cost
from vispco.core.errors import InvalidInputError
from vispco.cost import Budget
from vispco.cost.floor import raised_budgets
from vispco.data.sample import Sample
from vispco.evaluation.encoded import Encoded, encode, pad_token
from vispco.evaluation.frontier import Frontier
from vispco.pruner.pruner import Pruner
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.timing.candidate_options import UNPRUNED
from vispco.timing.prediction import break_even, measured_cost, predict_batch
from vispco.timing.prefill import count_flops, count_tower_flops, time_generation, time_parts

Progress = Callable[[int, int, str], None]
PARTS = ("vision", "predictor", "scoring", "language")
TIMES = "times.json"  # of a search: the rows of `time_budgets`
PROMPTS = 4  # of `time_budgets`, the largest pictures: where pruning matters


@dataclass(frozen=True, kw_only=True)
class BenchRow:
    """Medians over rounds and prompts; speed-ups are medians of ratios, each to the unpruned run of the same round.

    flops: the language model's, as a fraction of unpruned (cost `exact`), the mean over prompts as in `Evaluation`.
    prefill: the same of all that torch counts in the prefill; tower_share: of it, the vision tower and the projector.
    ttft_ms: p50 and p95 of the time to the first token, pictures and words in, first word out. speedup: `ttft` and
    `language` as measured, `ttft_implied` by all FLOPs that torch counts in that prefill, `language_implied` by the
    cost model. peak_bytes: of a process that does only this, with its weights; prefill_bytes: by how much the prefill
    raised it. None where it was not measured.
    predicted_ms: of the language model's prefill, by the profile of this device (`vispco profile`): to be compared with
    predictor, scoring and language of `parts_ms`. break_even: from how many visual tokens on pruning like this pays, by
    the same. None without a profile. unmet: how the row misses its budget, None where it meets it: a floor above it, or
    more time for vision tower, predictor, scoring and language than allowed, as measured.
    """

    configuration: str
    scorer: str | None
    budget: float | str | None
    flops: float
    prefill: float
    tower_share: float
    ttft_ms: dict[str, float]
    speedup: dict[str, float]
    decode_tokens_per_second: float
    kv_bytes: int
    parts_ms: dict[str, float]
    peak_bytes: int | None = None
    prefill_bytes: int | None = None
    predicted_ms: float | None = None
    break_even: int | None = None
    unmet: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True, kw_only=True)
class BenchSettings:
    """rounds: timed, after one warm-up. batch_size: prompts at once. new_tokens: decoded by every candidate."""

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
    """Everything measured of one candidate, in the order of rounds and prompts; FLOPs of each prompt once."""

    first: list[float] = field(default_factory=list)
    rate: list[float] = field(default_factory=list)
    parts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    kv_bytes: list[int] = field(default_factory=list)
    layers_flops: list[int] = field(default_factory=list)
    all_flops: list[int] = field(default_factory=list)
    tower_flops: list[int] = field(default_factory=list)
    predicted: list[float] = field(default_factory=list)
    break_even: list[int] = field(default_factory=list)
    raised: list[str] = field(default_factory=list)


def time_candidates(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    candidates: Mapping[str, PrunerSpec],
    settings: BenchSettings | None = None,
    *,
    on_progress: Progress = lambda _done, _total, _text: None,
) -> list[BenchRow]:
    """A row for the unpruned model, and one for each candidate by its name, in their order."""
    settings = settings or BenchSettings()
    if UNPRUNED in candidates:
        raise InvalidInputError(f"A candidate is called `{UNPRUNED}`, as the unpruned model is. Give it another name.")
    if not samples:
        raise InvalidInputError("No samples were given. Give at least one prompt to time.")
    pruners = resolve_candidates(candidates, model)
    size = settings.batch_size
    starts = range(0, len(samples), size)
    prompts = {
        name: [encode(model, processor, samples[at : at + size], pruner=pruner) for at in starts]
        for name, pruner in pruners.items()
    }
    logs = {name: _Log() for name in pruners}
    steps, done = (settings.rounds + 1) * len(starts) * len(pruners), 0
    for number in range(settings.rounds + 1):
        for place in range(len(starts)):
            order = list(pruners) if number % 2 else list(reversed(pruners))
            for name in order:
                encoded = prompts[name][place]
                on_progress(done, steps, f"{name}, {'warming up' if number == 0 else f'round {number}'}")
                if number == 0:
                    _count(model, encoded, pruners[name], logs[name])
                tokens = time_generation(model, encoded, pruners[name], settings.new_tokens, pad_token(processor))
                parts = time_parts(model, encoded, pruners[name])
                if number > 0:
                    logs[name].first.append(tokens.first)
                    logs[name].rate.append(tokens.number / tokens.rest)
                    for part in PARTS:
                        logs[name].parts[part].append(getattr(parts, part))
                done += 1
    on_progress(steps, steps, "done")
    budgets = {name: spec.budget for name, spec in candidates.items()}
    return [_row(name, budgets.get(name), pruner, logs[name], logs[UNPRUNED]) for name, pruner in pruners.items()]


def time_budgets(
    model: Any, processor: Any, samples: Sequence[Sample], spec: PrunerSpec, frontier: Frontier
) -> list[BenchRow]:
    """The unpruned model, and what a search found at each budget of its frontier, cheapest first, one prompt at a time."""
    points = sorted(frontier.points, key=lambda point: float(point.provenance["budget"]))
    budgets = dict.fromkeys(point.provenance.get("asked") or float(point.provenance["budget"]) for point in points)
    largest = sorted(samples, key=lambda sample: -sample.area)[:PROMPTS]
    candidates = {f"{Budget.of(budget)}": spec.at(budget) for budget in budgets}
    return time_candidates(model, processor, largest, candidates, BenchSettings(rounds=3, new_tokens=2))


def resolve_candidates(candidates: Mapping[str, PrunerSpec], model: Any) -> dict[str, Pruner | None]:
    """The unpruned model, and a new pruner for each candidate, by name."""
    return {UNPRUNED: None, **{name: spec.resolve(model) for name, spec in candidates.items()}}


def _count(model: Any, encoded: Encoded, pruner: Pruner | None, log: _Log) -> None:
    """FLOPs and bytes do not depend on the round."""
    with raised_budgets() as raised:
        parts = time_parts(model, encoded, pruner)
    log.raised += raised
    log.layers_flops.append(int(cost.get("exact", model.config).bill(parts.counts, parts.workload).sum()))
    log.all_flops.append(count_flops(model, encoded, pruner))
    log.tower_flops.append(count_tower_flops(model, encoded, pruner))
    log.kv_bytes.append(parts.kv_bytes)
    measured = measured_cost(model, len(encoded.num_visual))
    if measured is not None:
        log.predicted.append(predict_batch(measured, parts.counts, encoded.num_text, encoded.num_visual))
        longest = max(range(len(encoded.num_visual)), key=lambda place: encoded.num_visual[place])
        retention = (parts.counts[longest] / max(1, encoded.num_visual[longest])).tolist()
        least = break_even(measured, retention, encoded.num_text[longest])
        log.break_even += [] if least is None else [least]


def _row(name: str, budget: float | str | None, pruner: Pruner | None, log: _Log, whole: _Log) -> BenchRow:
    return BenchRow(
        configuration=name,
        scorer=None if pruner is None else pruner.chain.name,
        budget=budget,
        flops=statistics.fmean(a / b for a, b in zip(log.layers_flops, whole.layers_flops, strict=True)),
        prefill=statistics.fmean(a / b for a, b in zip(log.all_flops, whole.all_flops, strict=True)),
        tower_share=sum(log.tower_flops) / sum(log.all_flops),
        ttft_ms=summarize(log.first),
        speedup={
            "ttft": paired_speedup(whole.first, log.first),
            "ttft_implied": sum(whole.all_flops) / sum(log.all_flops),
            "language": paired_speedup(whole.parts["language"], log.parts["language"]),
            "language_implied": sum(whole.layers_flops) / sum(log.layers_flops),
        },
        decode_tokens_per_second=statistics.median(log.rate),
        kv_bytes=round(statistics.mean(log.kv_bytes)),
        parts_ms={part: 1e3 * statistics.median(log.parts[part]) for part in PARTS},
        predicted_ms=statistics.median(log.predicted) if log.predicted else None,
        break_even=round(statistics.median(log.break_even)) if pruner is not None and log.break_even else None,
        unmet=None if budget is None else _unmet(Budget.of(budget), log, whole),
    )


def _unmet(budget: Budget, log: _Log, whole: _Log) -> str | None:
    """How a row misses its budget: the floor, or the time that was measured; None where it is met."""
    if log.raised:
        return log.raised[0]
    own, full = (sum(1e3 * statistics.median(each.parts[part]) for part in PARTS) for each in (log, whole))
    if budget.is_mean or not budget.is_time or own <= budget.amount * (1.0 if budget.kind == "ms" else full):
        return None
    took = f"{own:.3g} ms" if budget.kind == "ms" else f"{own / full:.1%} of the time"
    return f"A budget of {budget.label} was planned, and {took} were measured."


def summarize(seconds: Sequence[float]) -> dict[str, float]:
    """p50 and p95, in milliseconds."""
    return {"p50": 1e3 * statistics.median(seconds), "p95": 1e3 * float(np.quantile(seconds, 0.95))}


def paired_speedup(reference: Sequence[float], own: Sequence[float]) -> float:
    """The speed-up: the median of the ratios of each round, so that drift of the machine cancels."""
    return statistics.median(a / b for a, b in zip(reference, own, strict=True))
