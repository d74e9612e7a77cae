"""`profile_model`: what a layer takes as a function of its tokens and of the batch, what a drop takes, and the rest.

The layers are timed on prompts of text, which can have any length. What stands around them, and a drop, are timed on prompts
with pictures. Everything is run in rounds, and a figure is the median of its rounds.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from vispco.bench.clock import now
from vispco.bench.prefill import last_logits, without_pixels
from vispco.cost import Dimensions, TimeProfile
from vispco.evaluation.encoded import Encoded, encode
from vispco.families import family_of
from vispco.planning.measured_planner import device_name
from vispco.pruner import Pruner
from vispco.schedule import Schedule
from vispco.scorers.base import VisionNeeds

if TYPE_CHECKING:
    from vispco.data.sample import Sample

BATCHES = (1, 4, 8, 16)
POINTS = 14  # numbers of tokens at which a layer is timed
Progress = Callable[[int, int, str], None]


def load_profile(dimensions: Dimensions, device: torch.device, dtype: torch.dtype) -> TimeProfile:
    """The profile of a model where it runs now."""
    return TimeProfile.load(dimensions, device_name(device), str(dtype).removeprefix("torch."))


def sizes_up_to(most: int, points: int = POINTS) -> tuple[int, ...]:
    """Sizes from 8 to `most` tokens, closer where they are small."""
    return tuple(sorted({round(8 * (most / 8) ** (i / (points - 1))) for i in range(points)}))


@torch.no_grad()
def profile_model(
    model: Any,
    processor: Any,
    samples: Sequence[Sample],
    *,
    batches: Sequence[int] = BATCHES,
    tokens: Sequence[int] | int = POINTS,
    rounds: int = 5,
    scorer: str = "fastv",
    on_progress: Progress = lambda _done, _total, _text: None,
) -> TimeProfile:
    """Measure a model on its device, with prompts that have pictures (as many as the largest batch, or they are repeated).

    tokens: the numbers of tokens at which a layer is timed, or how many such numbers, up to the longest prompt.
    """
    prompts = {batch: encode(model, processor, _repeated(samples, batch)) for batch in batches}
    return profile_prompts(model, prompts, tokens=tokens, rounds=rounds, scorer=scorer, on_progress=on_progress)


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
    """The same for prompts that are encoded: {batch: so many of them}."""
    batches = tuple(sorted(prompts))
    longest = max(encoded.length for encoded in prompts.values())
    most = max(64, int(1.25 * longest))
    sizes = sizes_up_to(most, tokens) if isinstance(tokens, int) else tuple(sorted(set(tokens)))
    layers = family_of(model).layers(model)
    times: dict[tuple[int, int], list[float]] = {(b, n): [] for b in batches for n in sizes}
    wholes: dict[int, list[float]] = {b: [] for b in batches}
    drops: dict[int, list[float]] = {b: [] for b in batches}
    steps, done = (rounds + 1) * len(batches), 0
    for number in range(rounds + 1):
        for batch in batches:
            on_progress(done, steps, f"batch of {batch}, {'warming up' if number == 0 else f'round {number}'}")
            for size in sizes:
                seconds = _time_layers(model, layers, batch, size)
                times[batch, size] += [seconds / len(layers)] if number else []
            whole, dropped = _time_drop(model, prompts[batch], scorer, len(layers))
            if number:
                wholes[batch].append(whole)
                drops[batch].append(dropped - whole)
            done += 1
    on_progress(steps, steps, "done")
    table = [_never_falling([1e3 * statistics.median(times[b, n]) for n in sizes]) for b in batches]
    fixed = []
    for batch, row in zip(batches, table, strict=True):
        inside = len(layers) * float(np.interp(prompts[batch].length, sizes, row))
        fixed.append(max(0.0, 1e3 * statistics.median(wholes[batch]) - inside))
    dtype = next(model.parameters()).dtype
    return TimeProfile(
        dimensions=Dimensions.from_config(model.config, dtype=dtype),
        device=device_name(model.device),
        dtype=str(dtype).removeprefix("torch."),
        batches=batches,
        tokens=sizes,
        layer_ms=tuple(map(tuple, table)),
        fixed_ms=tuple(fixed),
        drop_ms=tuple(max(0.0, 1e3 * statistics.median(drops[b])) for b in batches),
        facts={"model": type(model).__name__, "scorer": scorer, "rounds": rounds, "torch": torch.__version__},
    )


def language_seconds(model: Any, encoded: Encoded, pruner: Pruner | None) -> float:
    """The time of one prefill without the vision tower, planning and scoring included."""
    vision, inputs = without_pixels(model, encoded, VisionNeeds() if pruner is None else pruner.chain.needs_vision)
    with nullcontext() if pruner is None else pruner(model):
        start = now(model.device)
        model(**inputs, use_cache=True, **last_logits(model))
        whole = now(model.device) - start
    return whole if "mm_encoder_outputs" in inputs else max(0.0, whole - vision)


def _time_drop(model: Any, encoded: Encoded, scorer: str, num_layers: int) -> tuple[float, float]:
    """Seconds of an unpruned prefill, and of one that drops a single token of each sample."""
    layer = max(1, num_layers // 2)
    rows = [[visual if i < layer else max(0, visual - 1) for i in range(num_layers)] for visual in encoded.num_visual]
    schedule = Schedule.from_counts(torch.tensor(rows), list(encoded.num_visual))
    return language_seconds(model, encoded, None), language_seconds(model, encoded, Pruner(scorer, schedule))


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


def _repeated(samples: Sequence[Sample], number: int) -> list[Sample]:
    return [samples[place % len(samples)] for place in range(number)]


def _never_falling(values: Sequence[float]) -> list[float]:
    """The nearest values that never fall: neighbours that do are replaced by their mean."""
    blocks: list[list[float]] = []
    for value in values:
        blocks.append([value, 1.0])
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, n), (b, m) = blocks[-2], blocks.pop()
            blocks[-1] = [(a * n + b * m) / (n + m), n + m]
    return [value for value, number in blocks for _ in range(int(number))]
