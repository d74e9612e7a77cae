"""Clocks for the tokens of `generate()` and for the parts of a prefill."""

import copy
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from transformers.generation.streamers import BaseStreamer

from vispco.core.schedule import Schedule
from vispco.engine import Planner
from vispco.pruner.pruner import Pruner
from vispco.scorers import Scorer
from vispco.scorers.allocation import SCORE


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


class PartClock:
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
