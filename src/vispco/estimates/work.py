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

import torch

from vispco.cost import Cost, Workload
from vispco.schedule import whole_tokens
from vispco.search.gradient.static import DescentSettings
from vispco.search.modes import PASSES
from vispco.search.spec import BUDGETS, Effort
from vispco.sweep.spaces import RATIOS


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

    cost: Cost
    text: int
    visual: int
    answer: int
    weights: int
    language: int

    @property
    def flops(self) -> float:
        return float(self.cost.full(Workload(self.text, self.visual)))

    @property
    def forced(self) -> float:
        """FLOPs with the answer appended, as a search runs it."""
        return float(self.cost.full(Workload(self.text + self.answer, self.visual)))


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
    layers = prompt.cost.num_layers
    retention = torch.ones(layers - 1, len(RATIOS), layers, dtype=torch.float64)
    for layer in range(1, layers):
        retention[layer - 1, :, layer:] = torch.tensor(RATIOS, dtype=torch.float64)[:, None]
    rows = retention.view(-1, layers)
    counts = whole_tokens(rows, torch.full((len(rows),), prompt.visual))
    share = float(prompt.cost.price(counts, Workload(prompt.text, prompt.visual)).double().mean()) / prompt.flops
    return len(rows), estimate_evaluation(prompt, machine, items * len(rows), fraction=share, batch=batch)


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
    plan, batch = DescentSettings(), Effort().batch_size
    seen = min(plan.batches * batch, samples) * plan.outer * plan.inner * plan.starts
    passes = (
        _halved(plan.explore or 0, samples / batch) * batch + seen * (1 + len(plan.lengths)) + plan.starts * samples
    )
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
