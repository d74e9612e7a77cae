"""`profile_model`: times of a layer by its tokens and the batch, of a drop, and of the rest of a prefill.

The layers are timed on prompts of text, which can have any length. Prompts with pictures are timed unpruned and under a
few schedules, to which what stands around the layers, the price of a drop and the scale of the layers' times are fitted.
Everything is run in rounds, and a figure is the median of its rounds, or their least where the medians cannot be true.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import combinations
from typing import Any

import numpy as np
import torch

from vispco.core.schedule import Schedule
from vispco.cost import Dimensions, TimeProfile
from vispco.cost.time_profile import ProfileError
from vispco.data.sample import Sample
from vispco.evaluation.encoded import Encoded, encode
from vispco.families import family_of
from vispco.pruner.measured_planner import device_name
from vispco.pruner.pruner import Pruner
from vispco.timing.prefill import last_logits, now, without_pixels

BATCHES = (1, 4, 8, 16)
POINTS = 14  # numbers of tokens at which a layer is timed
_UNLIKELY = 1.65  # standard deviations: one prefill in twenty is later than that
_MOST_MARGIN = 0.15  # of a budget of time that is left free
SHORT, REPEATS = 0.5, 3  # seconds within which a call is timed again, and how often at most
_SHORTEST = 1e-6  # seconds of a prefill: less is the noise of what is taken off
_NOISY_FALL = 8.0  # with more threads than free cores, small layers seem to take this many times longer than large ones
_ATTEMPTS = 3  # measurements, until one of them can be true
Progress = Callable[[int, int, str], None]


def load_profile(dimensions: Dimensions, device: torch.device, dtype: torch.dtype) -> TimeProfile:
    """The profile of a model where it runs now."""
    return TimeProfile.load(dimensions, device_name(device), str(dtype).removeprefix("torch."))


def sizes_up_to(most: int, points: int = POINTS) -> tuple[int, ...]:
    """Sizes from 8 to `most` tokens, closer where they are small."""
    return tuple(sorted({round(8 * (most / 8) ** (i / (points - 1))) for i in range(points)}))


@torch.no_grad()
def profile_model(
    model: Any, processor: Any, samples: Sequence[Sample], *, batches: Sequence[int] = BATCHES, **options: Any
) -> TimeProfile:
    """Measure a model on its device, with prompts that have pictures (as many as the largest batch, or they are repeated).

    options: of `profile_prompts`.
    """
    prompts = {
        batch: encode(model, processor, [samples[place % len(samples)] for place in range(batch)]) for batch in batches
    }
    return profile_prompts(model, prompts, **options)


@torch.no_grad()
def profile_prompts(
    model: Any,
    prompts: Mapping[int, Encoded],
    *,
    tokens: Sequence[int] | int = POINTS,
    rounds: int = 5,
    scorer: str = "fastv",
    on_progress: Progress = lambda _done, _total, _text: None,
) -> TimeProfile:
    """Measure a model on encoded prompts, {batch size: prompts}.

    tokens: the numbers of tokens at which a layer is timed, or how many such numbers, up to the longest prompt.
    Times that cannot be true, as on a machine that does much else, are measured again, in more rounds, of which the least
    times count: other processes only ever add to them. Then they are refused.
    """
    longest = max(encoded.length for encoded in prompts.values())
    most = max(64, int(1.25 * longest))
    sizes = sizes_up_to(most, tokens) if isinstance(tokens, int) else tuple(sorted(set(tokens)))
    asked = _Measurement(model, prompts, sizes, rounds, scorer)
    for attempt in range(1, _ATTEMPTS + 1):
        asked.run(on_progress)
        found, faults = asked.fit(typical=np.median if attempt == 1 else np.min)
        if not faults:
            return found
        if attempt < _ATTEMPTS:
            on_progress(0, asked.steps, f"measured again, since {faults[0]}")
    raise ProfileError(
        f"No profile was kept: after {_ATTEMPTS} measurements of {rounds} rounds, times still cannot be true: "
        f"{faults[0]}. Stop what else runs on this machine, or give more --rounds than {rounds}, and profile again."
    )


@dataclass(eq=False)
class _Measurement:
    """A measurement in progress: its sizes, and the times so far in seconds.

    times: of a layer, by batch and size, one for each round. prefills: by batch, [rounds, runs]. towers: of the vision
    tower.
    """

    model: Any
    prompts: Mapping[int, Encoded]
    sizes: tuple[int, ...]
    rounds: int
    scorer: str
    times: dict[tuple[int, int], list[float]] = field(default_factory=lambda: defaultdict(list))
    prefills: dict[int, list[list[float]]] = field(default_factory=lambda: defaultdict(list))
    towers: dict[int, list[float]] = field(default_factory=lambda: defaultdict(list))

    @property
    def steps(self) -> int:
        return (self.rounds + 1) * len(self.prompts)

    @cached_property
    def runs(self) -> list[Schedule]:
        """The pruners that prefills are timed under: the unpruned one first, the one with most drops last."""
        return _timed_schedules(len(family_of(self.model).layers(self.model)))

    def run(self, on_progress: Progress) -> None:
        """Time all of it in `rounds` more rounds, after one that warms up."""
        model, done = self.model, 0
        layers = family_of(model).layers(model)
        for number in range(self.rounds + 1):
            for batch, encoded in self.prompts.items():
                on_progress(done, self.steps, f"batch of {batch}, {'warming up' if number == 0 else f'round {number}'}")
                for size in self.sizes:
                    seconds = _undisturbed(partial(_time_layers, model, layers, batch, size))
                    self.times[batch, size] += [seconds / len(layers)] if number else []
                # Seconds of a prefill under each schedule; the first is the full one, which runs without a pruner.
                pruners = [None, *(Pruner(self.scorer, schedule) for schedule in self.runs[1:])]
                seconds_of_runs = [
                    _undisturbed(partial(language_seconds, model, encoded, pruner)) for pruner in pruners
                ]
                self.prefills[batch] += [seconds_of_runs] if number else []
                seconds = _undisturbed(lambda encoded=encoded: without_pixels(model, encoded, None)[0])  # type: ignore[misc]
                self.towers[batch] += [seconds] if number else []
                done += 1
        on_progress(self.steps, self.steps, "done")

    def fit(self, typical: Callable[..., Any] = np.median) -> tuple[TimeProfile, list[str]]:
        """The profile of all rounds so far, and what cannot be true of it or of the times behind it.

        typical: of the times of several rounds, the one that counts.
        """
        model, prompts, sizes = self.model, self.prompts, self.sizes
        batches = tuple(sorted(prompts))
        typical_ms = [[1e3 * float(typical(self.times[b, n])) for n in sizes] for b in batches]
        faults = [fault for b, row in zip(batches, typical_ms, strict=True) for fault in _falling_times(sizes, row, b)]
        table = [_never_falling(row) for row in typical_ms]
        fitted, margins, spreads = [], [], []
        for batch, row in zip(batches, table, strict=True):
            encoded = prompts[batch]  # at each layer the tokens of the longest sample, to which others are padded
            texts = torch.tensor(encoded.num_text)[:, None]
            runs = [(run.counts(list(encoded.num_visual)) + texts).amax(0).tolist() for run in self.runs]
            tokens_of_runs, ms_of_sizes = np.array(runs), np.array(row)
            seconds_by_round = np.maximum(np.array(self.prefills[batch]), _SHORTEST)  # [rounds, runs]
            shares = np.median(seconds_by_round / seconds_by_round[:, :1], axis=0)  # inside a round: machines drift
            measured = 1e3 * np.median(seconds_by_round[:, 0]) * shares
            if typical is not np.median:
                measured = 1e3 * typical(seconds_by_round, axis=0)
            scale, fixed, drop = _fit_parts(tokens_of_runs, measured, np.array(sizes), ms_of_sizes)
            made_of = _prefill_parts(tokens_of_runs, np.array(sizes), ms_of_sizes)  # [runs, 3]
            if drop <= 0:  # hidden by noise: from the least times, of the runs with most drops and with none
                least = 1e3 * seconds_by_round.min(axis=0)
                drop = (least[-1] - least[0] + scale * (made_of[0, 0] - made_of[-1, 0])) / max(made_of[-1, 2], 1)
            # measured again, and still hidden: about what a short layer takes
            if drop <= 0 and typical is not np.median:
                drop = scale * row[0]
            fitted.append((scale, fixed, float(drop)))
            late = seconds_by_round / seconds_by_round[:, :1] * (measured[0] / (made_of @ fitted[-1])) - 1.0
            margins.append(min(_MOST_MARGIN, _UNLIKELY * float(np.sqrt((late[:, 1:] ** 2).mean()))))
            spreads.append(round(float(np.median(np.abs(late[:, 1:]))), 4))
        dtype = next(model.parameters()).dtype
        found = TimeProfile(
            dimensions=Dimensions.from_config(model.config, dtype=dtype),
            device=device_name(model.device),
            dtype=str(dtype).removeprefix("torch."),
            batches=batches,
            tokens=sizes,
            layer_ms=tuple(tuple(scale * ms for ms in row) for (scale, _, _), row in zip(fitted, table, strict=True)),
            fixed_ms=tuple(fixed for _, fixed, _ in fitted),
            drop_ms=tuple(drop for _, _, drop in fitted),
            margin=tuple(margins),
            tower_ms=tuple(
                1e3 * float(typical(self.towers[b])) / max(1.0, float(np.mean(prompts[b].num_visual))) for b in batches
            ),
            facts={
                "model": type(model).__name__,
                "scorer": self.scorer,
                "rounds": self.rounds,
                "torch": torch.__version__,
                "spread": spreads,
            },
        )
        return found, faults + found.faults()


def language_seconds(model: Any, encoded: Encoded, pruner: Pruner | None, *, warm: bool = True) -> float:
    """The time of one prefill without the vision tower, planning and scoring included.

    warm: not of the first one after a pruner is put on or taken off.
    """
    vision, inputs = without_pixels(model, encoded, pruner)
    with nullcontext() if pruner is None else pruner(model):
        if warm:
            model(**inputs, use_cache=True, **last_logits(model))
        start = now(model.device)
        model(**inputs, use_cache=True, **last_logits(model))
        whole = now(model.device) - start
    return whole if "mm_encoder_outputs" in inputs else max(0.0, whole - vision)


def _timed_schedules(num_layers: int) -> list[Schedule]:
    """The full one; one, two and three drops, early and late, from which the price of a drop is fitted; then many drops.

    At each of the many one in a hundred tokens leaves: drops alone, many times the noise of a single one.
    """
    found = [Schedule.full(num_layers)]
    for stages in ({0.5: 0.99}, {0.25: 0.5}, {0.15: 0.6, 0.5: 0.2}, {0.25: 0.7, 0.5: 0.4, 0.75: 0.1}):
        kept = {max(1, round(depth * num_layers)): share for depth, share in stages.items()}
        found.append(Schedule.stages({layer: r for layer, r in kept.items() if layer < num_layers}, num_layers))
    many = {layer: 1.0 - 0.01 * layer for layer in range(1, min(num_layers, 9))}
    return [*found, Schedule.stages(many, num_layers)]


def _undisturbed(time: Callable[[], float]) -> float:
    """Seconds of one call; of a short one the least of several, since another process can take as long as all of it."""
    found = [time()]
    while len(found) < REPEATS and sum(found) < SHORT:
        found.append(time())
    return min(found)


def _fit_parts(
    tokens: np.ndarray[Any, Any], measured: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], row: np.ndarray[Any, Any]
) -> tuple[float, float, float]:
    """Scale of the layers' times, fixed part and price of a drop that fit measured prefills, in ratio, none of them
    negative.

    tokens: [R, L], of each layer in each run, the first unpruned. measured: [R], in ms. row: the times of a layer at
    `sizes`.
    """
    parts = _prefill_parts(tokens, sizes, row)
    scale, fixed, drop = _nonnegative_weights(parts / measured[:, None], np.ones(len(measured))).tolist()
    if scale <= 0:  # times too noisy to tell: as the layers were measured alone
        return 1.0, max(0.0, float(measured[0] - parts[0, 0])), max(0.0, float(measured[1] - measured[0]))
    return scale, fixed, drop


def _nonnegative_weights(columns: np.ndarray[Any, Any], target: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Least-squares weights [C] of columns [R, C], none negative: the best over every choice of the columns that weigh.

    For a few columns; what it tries doubles with each.
    """
    number = columns.shape[1]
    best, least = np.zeros(number), float(target @ target)
    for used in (list(each) for size in range(1, number + 1) for each in combinations(range(number), size)):
        weights = np.linalg.lstsq(columns[:, used], target)[0]
        error = float(((columns[:, used] @ weights - target) ** 2).sum())
        if (weights >= 0).all() and error < least:
            best, least = np.zeros(number), error
            best[used] = weights
    return best


def _prefill_parts(
    tokens: np.ndarray[Any, Any], sizes: np.ndarray[Any, Any], row: np.ndarray[Any, Any]
) -> np.ndarray[Any, Any]:
    """Regressors of runs with tokens [R, L]: time of the layers, a constant, the number of drops: [R, 3]."""
    drops = (np.diff(tokens, axis=-1) < 0).sum(axis=-1)
    return np.stack([np.interp(tokens, sizes, row).sum(axis=-1), np.ones(len(tokens)), drops], axis=-1)


def _time_layers(model: Any, layers: Any, batch: int, size: int) -> float:
    """Seconds from the entry of the first layer to the end of the last, for prompts of text alone."""
    marks: list[float] = []

    def mark(*_: Any) -> None:
        marks.append(now(model.device))

    vocabulary = int(model.get_input_embeddings().weight.shape[0])
    taken = set(family_of(model).visual_token_ids(model))
    word = next(token for token in range(vocabulary // 2, vocabulary) if token not in taken)
    ids = torch.full((batch, size), word, device=model.device)
    attention = torch.ones_like(ids)
    if batch > 1:
        attention[0, 0] = 0  # prompts of a batch are padded, so that layers are handed a mask
    handles = [layers[0].register_forward_pre_hook(mark), layers[-1].register_forward_hook(mark)]
    try:
        model(input_ids=ids, attention_mask=attention, use_cache=True, **last_logits(model))
    finally:
        for handle in handles:
            handle.remove()
    return marks[1] - marks[0]


def _falling_times(sizes: Sequence[int], row: Sequence[float], batch: int) -> list[str]:
    """A sentence on times that fall with the work, before they are made monotone. One disturbed size is not enough."""
    half = len(row) // 2
    few, many = (float(np.median(part)) for part in (row[:half], row[half:]))
    if half == 0 or few <= _NOISY_FALL * many:
        return []
    return [
        f"a layer takes {few:.3g} ms with up to {sizes[half - 1]} and {many:.3g} ms with more tokens in a batch of {batch}"
    ]


def _never_falling(values: Sequence[float]) -> list[float]:
    """The nearest values that never fall: neighbours that do are replaced by their mean."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2], blocks.pop()
            blocks[-1] = [(a * n + b * m) / (n + m), n + m]
    return [value for value, number in blocks for _ in range(int(number))]
