"""Counters of a server, in the text format of Prometheus."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vispco.pruner.mean_budget import MeanController
    from vispco.serving.server.pruned_generation import PruningUsage

_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_HELP = {
    "requests_total": "Requests by HTTP status, each once, when it ends; 499: the client went away before the end.",
    "failures_total": "Answers that failed inside the server; a stream that fails has the status 200 of its beginning.",
    "prompt_tokens_total": "Tokens of prompts, visual ones included.",
    "completion_tokens_total": "Tokens of answers.",
    "visual_tokens_total": "Visual tokens of prompts.",
    "visual_tokens_kept_total": "Visual tokens that a layer processed, mean over layers.",
    "flops_total": "FLOPs of the language model for prompts (exact).",
    "flops_unpruned_total": "What they would have been without pruning.",
}
_GAUGES = {
    "budget_mean_target": "The mean of a mean budget, a fraction of the unpruned FLOPs.",
    "budget_mean_running": "What the last 256 prompts with pictures spent, at the server's own budget.",
    "budget_debt": "What prompts have spent above the mean so far, in means, as the controller keeps it.",
    "requests_waiting": "Requests that wait or are answered now.",
}


class ServerMetrics:
    """Counters, a gauge and a histogram; safe to use from many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._statuses: Counter[int] = Counter()
        self._buckets: Counter[float] = Counter()
        self._seconds = 0.0
        self._answers = 0
        self.waiting = 0

    def ended(self, status: int) -> None:
        """Count a request, refused or answered, once it is over."""
        with self._lock:
            self._statuses[status] += 1

    def enter(self, most: int) -> bool:
        """Take a place among `most` waiting requests; False where all are taken."""
        with self._lock:
            free = self.waiting < most
            self.waiting += free
        return free

    def leave(self, *, failed: bool = False) -> None:
        """Give the place back. failed: the model gave no answer, by an error of the server's own."""
        with self._lock:
            self.waiting -= 1
            self._counts["failures_total"] += failed

    def measured(self, usage: PruningUsage, prompt: int, completion: int) -> None:
        seconds = (usage.milliseconds + usage.waiting_ms) / 1e3
        with self._lock:
            self._counts["prompt_tokens_total"] += prompt
            self._counts["completion_tokens_total"] += completion
            self._counts["visual_tokens_total"] += usage.visual_tokens
            self._counts["visual_tokens_kept_total"] += usage.visual_tokens_kept  # type: ignore[assignment]
            self._counts["flops_total"] += usage.flops  # type: ignore[assignment]
            self._counts["flops_unpruned_total"] += usage.flops / usage.flops_fraction  # type: ignore[assignment]
            self._seconds += seconds
            self._answers += 1
            for bound in _SECONDS:
                self._buckets[bound] += seconds <= bound

    def text(self, gauges: Mapping[str, float] | None = None) -> str:
        """The page that Prometheus fetches. gauges: more of them, by names of `_GAUGES`."""
        with self._lock:
            samples = {name: [f" {self._counts[name]:.17g}"] for name in _HELP}
            samples["requests_total"] = [
                f'{{status="{key}"}} {number}' for key, number in sorted(self._statuses.items())
            ]
            shown = {**(gauges or {}), "requests_waiting": self.waiting}
            samples |= {name: [f" {value:.9g}"] for name, value in shown.items()}
            samples["request_seconds"] = [
                *(f'_bucket{{le="{bound:g}"}} {self._buckets[bound]}' for bound in _SECONDS),
                f'_bucket{{le="+Inf"}} {self._answers}',
                f"_sum {self._seconds:.9g}",
                f"_count {self._answers}",
            ]
        lines: list[str] = []
        for name, rows in samples.items():
            kind = "counter" if name in _HELP else "gauge" if name in _GAUGES else "histogram"
            description = {**_HELP, **_GAUGES}.get(name, "Seconds from a request to its last token.")
            lines += [f"# HELP vispco_{name} {description}", f"# TYPE vispco_{name} {kind}"]
            lines += [f"vispco_{name}{row}" for row in rows]
        return "\n".join(lines) + "\n"


def controller_gauges(controller: MeanController) -> dict[str, float]:
    """What the controller of a mean budget keeps, and how far it is."""
    running = controller.running_mean
    found = {"budget_mean_target": controller.mean, "budget_debt": controller.debt}
    return found if running is None else {**found, "budget_mean_running": running}
