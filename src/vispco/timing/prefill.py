"""The first token: from inputs (pixels and words) to the next word, as a whole and by part, and the clocks that time it."""

import copy
import inspect
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers.generation.streamers import BaseStreamer

from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost import Workload
from vispco.cost.formulas import counted_flops
from vispco.engine import Planner
from vispco.engine.tower_cut import TowerCut
from vispco.engine.vision import encode_pictures
from vispco.evaluation.encoded import Encoded
from vispco.families import family_of
from vispco.pruner.pruner import Pruner
from vispco.scorers import Scorer
from vispco.scorers.allocation import SCORE
from vispco.scorers.base import VisionNeeds


def now(device: torch.device) -> float:
    """The time in seconds, after all work of the device is finished."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    elif device.type == "mps":
        torch.mps.synchronize()
    return time.perf_counter()


class TokenClock(BaseStreamer):  # type: ignore[misc]  # transformers is untyped here
    """A streamer that records the time of each token. The first thing that `generate()` streams is the prompt."""

    def __init__(self) -> None:
        self.prompted = False
        self.times: list[float] = []

    def put(self, value: Any) -> None:
        del value  # on the host: the device has finished it
        if self.prompted:
            self.times.append(time.perf_counter())
        self.prompted = True

    def end(self) -> None:
        pass


class _PartClock:
    """Adds up what a prefill spends on planning (a predictor) and on scoring, while `pruner` runs."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.planning = self.scoring = 0.0

    def watch(self, pruner: Pruner) -> Pruner:
        """The same pruner, timed by this clock. A fixed schedule needs no planning."""
        plan = pruner.schedule
        chain = pruner.chain
        divided = chain.allocation != SCORE  # then ratings are asked for by themselves
        chain = replace(chain, stages=tuple((n, self._scorer(each, divided=divided)) for n, each in chain.stages))
        watched = Pruner(chain, plan if isinstance(plan, Schedule) else self._planner(plan), pixels=pruner.pixels)
        watched.tower, watched.prepared = pruner.tower, pruner.prepared
        return watched

    def _scorer(self, scorer: Scorer, *, divided: bool) -> Scorer:
        watched = copy.copy(scorer)
        name = "score" if divided and scorer.rates else "select"
        method = getattr(scorer, name)

        def choose(context: Any) -> Any:
            made, seconds = self._timed(method, context)
            self.scoring += seconds
            return made

        object.__setattr__(watched, name, choose)
        return watched

    def _planner(self, planner: Planner) -> Planner:
        def plan(layout: Any, embeddings: torch.Tensor) -> Any:
            made, seconds = self._timed(planner, layout, embeddings)
            self.planning += seconds
            return made

        return plan

    def _timed(self, action: Callable[..., Any], *args: Any) -> tuple[Any, float]:
        start = now(self.device)
        made = action(*args)
        return made, now(self.device) - start


@dataclass(frozen=True)
class _Tokens:
    """Seconds to the first token, and from it to the last; how many tokens came after the first, over the batch."""

    first: float
    rest: float
    number: int


@dataclass(frozen=True)
class _Parts:
    """Seconds of one prefill by part, the tokens that each layer saw [B, L] and what they were chosen from, and the
    bytes of the KV cache that it left.
    """

    vision: float
    predictor: float
    scoring: float
    language: float
    counts: torch.Tensor
    workload: Workload
    kv_bytes: int


@torch.no_grad()
def time_generation(model: Any, encoded: Encoded, pruner: Pruner | None, new_tokens: int, pad: int) -> _Tokens:
    """Run `generate()` and record the time of each token."""
    clock = TokenClock()
    with nullcontext() if pruner is None else pruner(model):
        start = now(model.device)
        model.generate(
            **encoded.inputs,
            max_new_tokens=new_tokens,
            min_new_tokens=new_tokens,  # no end token before, so that all decode the same number
            do_sample=False,
            num_beams=1,
            pad_token_id=pad,
            streamer=clock,
        )
    if len(clock.times) != new_tokens:
        raise InvalidInputError(f"The model gave {len(clock.times)} tokens where {new_tokens} were asked for.")
    rows = int(encoded.inputs["input_ids"].shape[0])
    return _Tokens(clock.times[0] - start, clock.times[-1] - clock.times[0], rows * (new_tokens - 1))


@torch.no_grad()
def time_parts(model: Any, encoded: Encoded, pruner: Pruner | None) -> _Parts:
    """Time the parts of a prefill. What is not vision tower, predictor or scoring is the language model."""
    clock = _PartClock(model.device)
    vision, inputs = without_pixels(model, encoded, pruner)
    watched = None if pruner is None else clock.watch(pruner)
    with nullcontext() if watched is None else watched(model):
        start = now(model.device)
        out = model(**inputs, use_cache=True, **last_logits(model))
        whole = now(model.device) - start
        if watched is None:
            counts = torch.tensor(encoded.num_visual)[:, None].expand(-1, len(family_of(model).layers(model)))
            workload = Workload(encoded.num_text, encoded.num_visual)
        else:
            counts, workload = watched.token_counts(model), watched.workload(model)
    if "mm_encoder_outputs" not in inputs:
        whole = max(0.0, whole - vision)  # this model encodes pictures inside its forward pass
    return _Parts(
        vision,
        clock.planning,
        clock.scoring,
        whole - clock.planning - clock.scoring,
        counts,
        workload,
        kv_bytes(out.past_key_values),
    )


@torch.no_grad()
def count_flops(model: Any, encoded: Encoded, pruner: Pruner | None) -> int:
    """FLOPs of a whole prefill as torch counts them: vision tower, predictor, scoring, layers and output head."""
    with nullcontext() if pruner is None else pruner(model), counted_flops() as counter:
        model(**encoded.inputs, use_cache=True, **last_logits(model))
    return int(counter.get_total_flops())


@torch.no_grad()
def count_tower_flops(model: Any, encoded: Encoded, pruner: Pruner | None) -> int:
    """FLOPs of the vision tower and the projector as torch counts them; 0 where the model has no features to ask for."""
    if not hasattr(family_of(model).base(model), "get_image_features"):
        return 0
    with nullcontext() if pruner is None else pruner(model), counted_flops() as counter:
        encode_pictures(model, encoded.inputs, VisionNeeds())
    return int(counter.get_total_flops())


def kv_bytes(cache: Any) -> int:
    """Bytes that a cache holds now, over all layers."""
    held = [tensor for layer in cache.layers for tensor in (layer.keys, layer.values) if tensor is not None]
    return sum(tensor.numel() * tensor.element_size() for tensor in held)


def without_pixels(model: Any, encoded: Encoded, pruner: Pruner | None) -> tuple[float, dict[str, Any]]:
    """Seconds of the vision tower, and inputs that have its output in place of pixels, where the model takes it."""
    needs, cut = (VisionNeeds(), None) if pruner is None else (pruner.chain.needs_vision, pruner.cut)
    if "mm_encoder_outputs" in encoded.inputs or not hasattr(family_of(model).base(model), "get_image_features"):
        return 0.0, dict(encoded.inputs)
    with nullcontext() if cut is None else TowerCut(family_of(model), model, cut):
        start = now(model.device)
        features = encode_pictures(model, encoded.inputs, needs)
        seconds = now(model.device) - start
    if "mm_encoder_outputs" not in inspect.signature(model.forward).parameters:
        return seconds, dict(encoded.inputs)
    words = {name: value for name, value in encoded.inputs.items() if not name.startswith("pixel_")}
    return seconds, {**words, "mm_encoder_outputs": features}


def last_logits(model: Any) -> dict[str, int]:
    return {"logits_to_keep": 1} if "logits_to_keep" in inspect.signature(model.forward).parameters else {}
