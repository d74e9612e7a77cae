"""FitPrune's recipe: bisection on the share of attention that may be lost, to a FLOPs target.

Ye et al., "Fit and Prune: Fast and Training-free Visual Token Pruning for Multi-modal Large Language Models" (AAAI 2025).

Faithful: one unpruned pass records the attention that visual tokens receive from text and from each other (head-wise
maximum). For an alpha, the layers are walked; in each, a token may go if it is among the least attended *both* by text
and by the picture, each time as many as leave (1 - alpha) of the layer's recorded total; the walk stops once the FLOPs
of what was walked and the forecast of the rest meet the target. alpha is bisected in [0, 1] to 0.01. The recipe is the
mean deletion of each layer. As in the original, the search selects by intersection; what leaves at inference is the
scorer's affair (the scorer `fitprune` takes the product).

Not faithful: the original runs the pruned model anew for every alpha and reads the attention that is then paid; here
the unpruned pass is used throughout (one pass instead of about eight, and the self-attention of a token still counts
rows of tokens that have left). FLOPs are the language model's with its text, by our cost model, not the visual tokens'
alone. Shares, not counts, because pictures differ in size; what leaves in the last layer's middle has no place in a
schedule. The answer is the least alpha that met the target (the original may return one that did not), cut or lifted to
the budget to within a token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.received_attention import ReceivedAttention, read_received_attention
from vispco.compare.searches.registry import SEARCHES
from vispco.compare.searches.rival import Choice, Rival
from vispco.core.errors import InvalidInputError
from vispco.core.schedule import Schedule
from vispco.evaluation.sample_sizes import SampleSizes

NOISE = 1e-9  # of a layer's total: sums in another order differ by less


@SEARCHES.register
@dataclass(frozen=True)
class FitPruneSearch(Rival):
    """Bisection on attention mass. samples: how many of the calibration samples are looked at; None for all."""

    name: ClassVar[str] = "fitprune"

    tolerance: float = 0.01
    samples: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.tolerance < 1.0:
            raise InvalidInputError(f"tolerance={self.tolerance} was given to {self.name!r}. Give a number in (0, 1).")

    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        assert budget is not None  # noqa: S101 - needs_budget
        few = calibration.first(len(calibration.sizes) if self.samples is None else self.samples)
        if not hasattr(few.evaluator, "model"):
            raise InvalidInputError(
                f"The search {self.name!r} reads a model's attention, and {type(few.evaluator).__name__} has no model. "
                "Give a TaskEvaluator."
            )
        attention = read_received_attention(few.evaluator)
        calibration.bill.spent.teacher += float(few.sizes.cost.full(few.sizes.workload).sum())
        calibration.bill.spent.measured += reading_flops(attention, few.sizes)
        alpha, counts = bisect(attention, few.sizes, budget, self.tolerance)
        return Choice(recipe(counts, few.sizes), provenance={"alpha": alpha, "looked_at": len(few.sizes)})


def bisect(attention: ReceivedAttention, sizes: SampleSizes, budget: float, tolerance: float) -> tuple[float, Tensor]:
    """The least alpha (to `tolerance`) whose walk meets the budget, and its counts [S, L]."""
    low, high = 0.0, 1.0
    met, counts = walk(attention, sizes, budget, high)
    while met and high - low > tolerance:
        middle = (low + high) / 2
        reached, tried = walk(attention, sizes, budget, middle)
        if reached:
            high, counts = middle, tried
        else:
            low = middle
    return high, counts


def walk(attention: ReceivedAttention, sizes: SampleSizes, budget: float, alpha: float) -> tuple[bool, Tensor]:
    """Delete layer by layer until what was spent and the forecast meet the budget: did they, and the counts [S, L]."""
    live = attention.present
    counts = sizes.num_visual[:, None].repeat(1, sizes.num_layers)
    for layer in range(sizes.num_layers - 1):
        if float(sizes.fractions(counts).mean()) <= budget:
            return True, counts
        cross, own = attention.cross[:, layer].double(), attention.own[:, layer].double()
        live = live & ~(dispensable(cross, live, alpha) & dispensable(own, live, alpha))
        counts[:, layer + 1 :] = live.sum(-1)[:, None]  # the forecast: nothing more leaves
    return float(sizes.fractions(counts).mean()) <= budget, counts


def dispensable(mass: Tensor, live: Tensor, alpha: float) -> Tensor:
    """The most live tokens, least attended first, without which (1 - alpha) of the layer's mass [S, V] is left."""
    total = mass.sum(-1, keepdim=True)
    order = torch.where(live, mass, torch.inf).argsort(dim=-1, stable=True)
    ascending = torch.where(live, mass, 0.0).gather(-1, order)
    left = ascending.sum(-1, keepdim=True) - ascending.cumsum(-1)
    goes = left >= (1.0 - alpha - NOISE) * total
    return torch.zeros_like(live).scatter(-1, order, goes) & live


def recipe(counts: Tensor, sizes: SampleSizes) -> Schedule:
    """The mean share of tokens that each layer's input keeps, over the samples that have a picture: counts [S, L]."""
    seen = sizes.num_visual > 0
    if not bool(seen.any()):
        return Schedule.full(sizes.num_layers)
    share = counts[seen].double() / sizes.num_visual[seen, None].double()
    return Schedule(tuple(share.mean(0).tolist()))


def reading_flops(attention: ReceivedAttention, sizes: SampleSizes) -> float:
    """FLOPs of reading the rows in all layers: each is a query times every key; see `vispco.scorers.cost`."""
    size = sizes.cost.dimensions
    rows = attention.rows + sizes.num_visual
    keys = sizes.num_text + sizes.num_visual
    return float((rows * keys).sum() * 2 * size.heads * size.head_dim * sizes.num_layers)
