"""One request on the model: pruned, timed, counted, and stopped when nobody waits for it any more."""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from transformers import StoppingCriteria, StoppingCriteriaList

from vispco import cost
from vispco.core.errors import PrunerStateError
from vispco.pruner.pruner import Pruner
from vispco.serving.server.stop_strings import StopAtText, TextUntilStop
from vispco.timing.prefill import TokenClock


@dataclass(frozen=True, kw_only=True)
class PruningUsage:
    """What a request took; `usage.pruning` of its answer.

    visual_tokens: of the prompt. visual_tokens_kept: mean over layers. flops, flops_fraction: of the language model for
    the prompt (cost `exact`), and as a fraction of unpruned. first_token_ms, milliseconds: on the model, without waiting;
    waiting_ms: for the requests before it.
    """

    budget: float | str
    method: str
    visual_tokens: int
    visual_tokens_kept: float
    visual_tokens_last_layer: int
    flops: float
    flops_fraction: float
    first_token_ms: float
    milliseconds: float
    waiting_ms: float


class PrunedGeneration:
    """Stands for the model in transformers' handlers: everything is the model's, but `generate` prunes and measures."""

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        pruner: Callable[[float | str], Pruner],
        budget: float | str,
        cancelled: threading.Event,
        on_end: Callable[..., None],  # called once, when the request has left the model: failed or not
        stops: tuple[str, ...] = (),
    ) -> None:
        self._model, self._tokenizer, self._pruner, self._budget = model, tokenizer, pruner, budget
        self._cancelled, self._on_end, self._asked = cancelled, on_end, time.perf_counter()
        self.usage: PruningUsage | None = None
        self.template_fits = True
        self.written, self.shown = TextUntilStop(stops), TextUntilStop(stops)  # by the model; to the client

    @property
    def config(self) -> Any:
        """The model's; without its type where transformers would read the answer by a template that does not fit."""
        return self._model.config if self.template_fits else SimpleNamespace(model_type=None)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def generate(self, **inputs: Any) -> Any:
        """On the inference thread. Errors leave as sentences that fit into JSON, because a stream prints them there."""
        try:
            tokens = self._generate(inputs)
        except Exception as error:
            stopped = type(error).__name__ == "_GenerationCancelled"  # transformers' own way to stop a stream
            self._on_end(failed=not stopped and not self._cancelled.is_set())
            if stopped:
                raise
            raise RuntimeError(json.dumps(" ".join(str(error).split()))[1:-1]) from error
        self._on_end()
        return tokens

    def _generate(self, inputs: dict[str, Any]) -> Any:
        if self._cancelled.is_set():
            raise RuntimeError("the client has gone away")
        began = time.perf_counter()
        clock = _Clock(inputs.pop("streamer", None))
        inputs["tokenizer"] = self._tokenizer
        stop = StoppingCriteriaList([_Cancelled(self._cancelled)])
        if self.written.stops:
            stop.append(StopAtText(self.written, self._tokenizer))
        pruner = self._pruner(self._budget)
        with pruner(self._model):
            tokens = self._model.generate(**inputs, streamer=clock, stopping_criteria=stop)
            self.usage = self._measured(pruner, inputs["input_ids"], began, next(iter(clock.times), None))
        if clock.inner is not None:
            clock.inner.end()  # only now: who reads the stream to its end finds the usage there
        return tokens

    def _measured(self, pruner: Pruner, ids: torch.Tensor, began: float, first: float | None) -> PruningUsage:
        """What the prompt has taken, ids [1, N]; first: when its first token came."""
        ended = time.perf_counter()
        price = cost.get("exact", self._model.config)
        try:
            counts, workload = pruner.token_counts(self._model), pruner.workload(self._model)  # [1, L]
        except PrunerStateError:  # no picture
            counts, workload = torch.zeros(1, price.num_layers, dtype=torch.long), cost.Workload([ids.shape[1]], [0])
        flops = float(price.bill(counts, workload)[0])
        kept = [int(count) for count in counts[0].tolist()]
        return PruningUsage(
            budget=self._budget,
            method=str(pruner.chain),
            visual_tokens=int(workload.num_visual[0]),
            visual_tokens_kept=statistics.fmean(kept),
            visual_tokens_last_layer=kept[-1],
            flops=flops,
            flops_fraction=flops / float(price.full(workload)[0]),
            first_token_ms=1e3 * ((first or ended) - began),
            milliseconds=1e3 * (ended - began),
            waiting_ms=1e3 * (began - self._asked),
        )


class _Clock(TokenClock):
    """Passes tokens on as well. The end is passed on by `generate`, after the usage is known."""

    def __init__(self, inner: Any) -> None:
        super().__init__()
        self.inner = inner

    def put(self, value: Any) -> None:
        super().put(value)
        if self.inner is not None:
            self.inner.put(value)


class _Cancelled(StoppingCriteria):  # type: ignore[misc]  # transformers is untyped here
    def __init__(self, event: threading.Event) -> None:
        self.event = event

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> Any:
        del scores
        return torch.full((input_ids.shape[0],), self.event.is_set(), device=input_ids.device, dtype=torch.bool)
