"""AutoPrune: a logistic curve for each input, steeper where the question and the picture have less to do with each other.

"AutoPrune: Each Complexity Deserves a Pruning Policy" (NeurIPS 2025), training-free.

Faithful: the mutual information between text and visual tokens, from the attention of an early layer (the second of 32), in
bits, with equally likely text tokens, added over heads; the steepness k = max(k0 - gamma * bits, 0) of that input; the curve
0.75 / (1 + exp(k (l - x0 - k))) with k0 = 0.4, gamma = 0.2, x0 = 14.9 of 32 layers; one factor on the curve, found by bisection, meets the
budget. Nothing is measured, so the search costs nothing.

Not faithful: layers are counted in units of 1/32 of the depth, so that a model of another depth has the same curves. The
budget is FLOPs with its full first layers, met by every sample, where the original's is a mean number of tokens that does
not count the first layer. The attention is read in a pass of its own, which a deployed method would not need: the layers up to
the one that is read keep all tokens, so that the numbers are the same. gamma is the paper's for 32 heads; `heads` scales
the sum to as many (None: take the sum as it is). Which tokens stay is up to the comparison's scorer; nothing is recycled.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.candidate import InputResult
from vispco.compare.searches.mutual_information import read_mutual_information
from vispco.compare.searches.registry import SEARCHES
from vispco.compare.searches.rival import solve_curve
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.cost import snap
from vispco.evaluation.result import Evaluation, Evaluator
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.search.bill import FlopsBill

DEPTH = 32  # layers of the paper's model, in whose units the curve is given
HEIGHT = 0.75


@SEARCHES.register
@dataclass(frozen=True)
class AutoPrune:
    """A curve by mutual information. heads: how many heads `gamma` is meant for."""

    name: ClassVar[str] = "autoprune"

    k0: float = 0.4
    gamma: float = 0.2
    x0: float = 14.9
    heads: int | None = 32

    def __post_init__(self) -> None:
        if self.k0 < 0 or self.gamma < 0 or (self.heads is not None and self.heads < 1):
            raise InvalidInputError(
                f"k0={self.k0}, gamma={self.gamma}, heads={self.heads} were given to {self.name!r}. Give numbers from 0, "
                "and at least 1 head."
            )

    @property
    def label(self) -> str:
        return self.name

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def search(self, calibration: Calibration | Evaluator, budget: float) -> AutoPruneResult:
        """Nothing is searched: the result reads each input that it is evaluated on."""
        start = time.perf_counter()
        given = Calibration.of(calibration)
        given.sizes.check_budget(budget)
        if not hasattr(given.evaluator, "model"):
            raise InvalidInputError(
                f"The search {self.name!r} reads a model's attention, and {type(given.evaluator).__name__} has no model. "
                "Give a TaskEvaluator."
            )
        provenance = {"settings": self.settings(), "samples": 0}
        return AutoPruneResult(self, budget, FlopsBill(), time.perf_counter() - start, provenance=provenance)

    def curve(self, bits: Tensor, num_layers: int, first: int) -> Tensor:
        """The curves of inputs with so much mutual information [S], before they are scaled: float64 [S, L]."""
        k = (self.k0 - self.gamma * bits.double()).clamp_min(0.0)[:, None]
        depth = torch.arange(num_layers, dtype=torch.float64) * DEPTH / num_layers
        curve = HEIGHT / (1.0 + torch.exp(k * (depth - self.x0 - k)))
        return torch.cat([torch.ones_like(curve[:, :first]), curve[:, first:]], dim=-1)


@dataclass(frozen=True)
class AutoPruneResult(InputResult):
    """The method at a budget: each input's attention decides for it."""

    rival: AutoPrune

    def evaluate(self, test: Any, sizes: SampleSizes) -> Evaluation:
        """Read the attention on the inputs of a `TaskEvaluator`, and evaluate the schedule of each."""
        found: Evaluation = test(self.schedules(test, sizes))
        return found

    def schedules(self, test: Any, sizes: SampleSizes) -> Schedule:
        """The schedule of each input: whole tokens within the budget."""
        layer = sizes.num_layers // DEPTH
        bits = read_mutual_information(test, layer)
        if self.rival.heads is not None:
            bits = bits * self.rival.heads / sizes.cost.dimensions.heads
        first = max(sizes.earliest_layer, layer + 1)
        raw = self.rival.curve(bits, sizes.num_layers, first)

        def scaled(factor: Tensor) -> Tensor:
            moved = (raw * factor[..., None]).clamp(max=1.0)
            return torch.cat([torch.ones_like(moved[..., :first]), moved[..., first:]], dim=-1)

        most = 1.0 / float(raw.min().clamp_min(1e-6))
        curves = solve_curve(scaled, self.budget, sizes.workload, sizes.cost, most=most)
        limits = torch.full((len(sizes),), self.budget, dtype=torch.float64)
        counts = snap(curves, limits, sizes.workload, sizes.cost, fill=False)
        return Schedule.from_counts(counts, sizes.num_visual.tolist())
