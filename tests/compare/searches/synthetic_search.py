"""An evaluator without a model: quality and KL are known functions of the schedule, and every call is written down."""

from __future__ import annotations

import torch

from vispco import cost
from vispco.compare.searches import SampleSizes
from vispco.core.schedule import Schedule
from vispco.cost import Dimensions
from vispco.evaluation import Evaluation, TaskResult
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain

LAYERS = 5


def dimensions(layers=LAYERS):
    return Dimensions(
        num_layers=layers,
        hidden=32,
        heads=4,
        kv_heads=2,
        head_dim=8,
        ffn=48,
        gated=True,
        windows=(None,) * layers,
        vocab=64,
        dtype_bytes=4,
    )


def make_sizes(text=(12, 9, 15), visual=(64, 40, 100), answer=2, layers=LAYERS, chain="vtw@1"):
    model = cost.get("exact", dimensions(layers))
    numbers = torch.tensor(text), torch.tensor(visual), torch.full((len(text),), answer)
    return SampleSizes(*numbers, model, Chain.of(chain))


class SyntheticEvaluator:
    """quality = 1 - sum_i w_i (1 - r_i)^p, monotone in every r_i: shallow layers weigh most, but not only they."""

    weights = torch.tensor([0.0, 0.5, 0.25, 0.15, 0.1], dtype=torch.float64)

    def __init__(self, sizes=None, power=2.0):
        self.sizes = sizes or make_sizes()
        self.power, self.calls = power, []

    def rows(self, schedule):
        counts = schedule.counts(self.sizes.num_visual.tolist())
        return counts, counts / self.sizes.num_visual[:, None]

    def quality(self, schedule):
        _, r = self.rows(schedule)
        return float((1 - (self.weights * (1 - r) ** self.power).sum(-1)).mean())

    def kl(self, schedule):
        self.calls.append(schedule)
        return 3 * (1 - self.quality(schedule))

    def __call__(self, schedule):
        self.calls.append(schedule)
        counts, _ = self.rows(schedule)
        flops = self.sizes.cost.price(counts, self.sizes.workload).double()
        fraction = float(self.sizes.fractions(counts).mean())
        quality = self.quality(schedule)
        tasks = [TaskResult("left", quality, quality, quality, 100), TaskResult("right", quality / 2, 0.0, 1.0, 100)]
        return Evaluation.from_tasks(tasks, flops={"exact": float(flops.mean())}, fraction={"exact": fraction})


def holds(schedule: Schedule, sizes: SampleSizes, budget: float) -> bool:
    """Does every sample meet the budget?"""
    return bool((sizes.fractions(schedule.counts(sizes.num_visual.tolist())) <= budget).all())


class ChainEvaluator(SyntheticEvaluator):
    """The same for pruners of any chain: `better` says how much a chain adds to the quality of its schedule."""

    def __init__(self, better=None, **options):
        super().__init__(**options)
        self.better = better or {}

    def kl(self, subject):
        chain, schedule = (subject.chain, subject.schedule) if isinstance(subject, Pruner) else (None, subject)
        return super().kl(schedule) - 0.3 * self.better.get(str(chain), 0.0)
