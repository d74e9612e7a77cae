"""FLOPs and hours of searches, grids and evaluations.

The prefill of one prompt is priced by `vispco.cost`, and multiplied by how often it runs. Each generated token is counted
as two FLOPs per weight. The vision tower (once per picture) and the predictor are small and left out. Hours follow from
the given GPU: prefill runs at a share of its peak, and each generated token of a batch reads the weights once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from vispco.timing.estimates.prefill_size import PrefillPrice

# What the searches and the sweep do by default. They are stated again because importing them takes seconds; a test compares.
RATIOS = tuple(round(0.01 + 0.05 * step, 2) for step in range(20))  # of the paper's grid
BUDGETS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
PASSES = 4  # of a training over its samples
BATCH = 16
HALF = 0.5 + 1e-6  # rounds halves up, as schedules do


@dataclass(frozen=True)
class Descent:
    """The defaults of `vispco.search.gradient.static.DescentSettings` that cost passes."""

    starts: int = 1
    outer: int = 3
    inner: int = 1
    batches: int = 4
    lengths: int = 3
    explore: int = 64


@dataclass(frozen=True, kw_only=True)
class Machine:
    """tflops: the peak of one GPU in the dtype that is used. utilisation: the share of it that a prefill reaches."""

    tflops: float = 148.0  # NVIDIA H20, bfloat16: the paper's GPU
    utilisation: float = 0.4
    bandwidth: float = 4.0  # TB/s, of the same
    gpus: int = 1


@dataclass(frozen=True, kw_only=True)
class PromptSize:
    """A sample of mean size. weights: bytes that are read for each generated token; language: the parameters of the model."""

    price: PrefillPrice
    text: int
    visual: int
    answer: int
    weights: int
    language: int

    @property
    def flops(self) -> float:
        return float(self.price.full(self.text, self.visual))

    @property
    def forced(self) -> float:
        """FLOPs with the answer appended, as a search runs it."""
        return float(self.price.full(self.text + self.answer, self.visual))


@dataclass(frozen=True)
class WorkEstimate:
    """What one kind of run takes. prompts: how many unpruned prompts it is worth."""

    flops: float
    hours: float
    prompts: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def estimate_evaluation(
    prompt: PromptSize, machine: Machine, items: int, *, fraction: float = 1.0, batch: int = 16
) -> WorkEstimate:
    """Answers to `items` questions at a fraction of the unpruned prefill."""
    prefill = items * fraction * prompt.flops
    written = items * prompt.answer
    reading = written / batch * prompt.weights / (machine.bandwidth * 1e12) / machine.gpus
    flops = prefill + written * 2.0 * prompt.language
    return WorkEstimate(flops, _hours(prefill, machine) + reading / 3600, flops / prompt.flops)


def estimate_grid(prompt: PromptSize, machine: Machine, items: int, *, batch: int = 16) -> tuple[int, WorkEstimate]:
    """(configurations, work) of the paper's single-layer grid, each evaluated from layer 0 on."""
    text, visual = prompt.text, prompt.visual
    prices = [
        prompt.price.dropped(text, visual, layer, math.floor(ratio * visual + HALF))
        for layer in range(1, prompt.price.num_layers)
        for ratio in RATIOS
    ]
    share = sum(prices) / len(prices) / prompt.flops
    return len(prices), estimate_evaluation(prompt, machine, items * len(prices), fraction=share, batch=batch)


def estimate_gradient_search(prompt: PromptSize, machine: Machine, samples: int) -> WorkEstimate:
    """The paper's predictor: the teacher once, then forward and backward through the masked model on every pass."""
    flops = samples * prompt.forced * (1 + 3 * PASSES)
    return WorkEstimate(flops, _hours(flops, machine), flops / prompt.flops)


def estimate_static_search(
    prompt: PromptSize, machine: Machine, samples: int, budgets: Sequence[float] = BUDGETS
) -> WorkEstimate:
    """At most: the teacher once; for each budget shapes, the better ones on more samples, then a descent.

    One step of it is a gradient over some batches, and a few lengths that are tried on them.
    """
    plan = Descent()
    seen = min(plan.batches * BATCH, samples) * plan.outer * plan.inner * plan.starts
    passes = _halved(plan.explore, samples / BATCH) * BATCH + seen * (1 + plan.lengths) + plan.starts * samples
    tried = [passes * budget for budget in budgets]
    steps = 3 * seen * len(budgets)
    flops = (samples + sum(tried) + steps) * prompt.forced
    return WorkEstimate(flops, _hours(flops, machine), flops / prompt.flops)


def _halved(shapes: int, batches: float, rungs: int = 3) -> float:
    """How many batches `halving.rank` measures over all shapes."""
    seen = [0.0, *(math.pow(batches, rung / rungs) for rung in range(1, rungs + 1))]
    return sum(math.pow(shapes, 1 - rung / rungs) * (seen[rung + 1] - seen[rung]) for rung in range(rungs))


def _hours(flops: float, machine: Machine) -> float:
    return flops / (machine.tflops * 1e12 * machine.utilisation * machine.gpus) / 3600
