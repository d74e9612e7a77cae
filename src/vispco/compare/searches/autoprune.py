"""AutoPrune: a logistic curve for each input, steeper where the question and the picture have less to do with each other.

"AutoPrune: Each Complexity Deserves a Pruning Policy" (NeurIPS 2025), training-free.

Faithful: the mutual information between text and visual tokens, from the attention of an early layer (the second of
32), in bits, with equally likely text tokens, added over heads; the steepness k = max(k0 - gamma * bits, 0) of that
input; the curve 0.75 / (1 + exp(k (l - x0 - k))) with k0 = 0.4, gamma = 0.2, x0 = 14.9 of 32 layers; one factor on the
curve, found by bisection, meets the budget. Nothing is measured, so the search costs nothing.

Not faithful: layers are counted in units of 1/32 of the depth, so that a model of another depth has the same curves. The
budget is FLOPs with its full first layers, met by every sample, where the original's is a mean number of tokens that does
not count the first layer. The attention is read in a pass of its own, which a deployed method would not need: the
layers up to the one that is read keep all tokens, so that the numbers are the same. gamma is the paper's for 32 heads;
`heads` scales the sum to as many (None: take the sum as it is). Which tokens stay is up to the comparison's scorer;
nothing is recycled.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival, solve_curve, unpruned_passes
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.layout import TokenLayout
from vispco.core.schedule import Schedule
from vispco.cost import snap
from vispco.engine import attention_calls
from vispco.engine.attention import AttentionCall
from vispco.engine.rows import attention_weights
from vispco.evaluation.sample_sizes import SampleSizes

_DEPTH = 32  # layers of the paper's model, in whose units the curve is given
_HEIGHT = 0.75
_TINY = 1e-12


@SEARCHES.register
@dataclass(frozen=True)
class _AutoPrune(Rival):
    """A curve by mutual information. heads: how many heads `gamma` is meant for."""

    name: ClassVar[str] = "autoprune"
    least: ClassVar[Mapping[str, float]] = {"k0": 0.0, "gamma": 0.0, "heads": 1}

    k0: float = 0.4
    gamma: float = 0.2
    x0: float = 14.9
    heads: int | None = 32

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        """Nothing is searched: each input is read when it is evaluated."""
        self.require_model(calibration, "reads a model's attention")
        return Choice(provenance={"samples": 0}, evaluate=lambda test, sizes: test(self.schedules(test, sizes, budget)))

    def curve(self, bits: Tensor, num_layers: int, first: int) -> Tensor:
        """The curves of inputs with this mutual information [S], before they are scaled: float64 [S, L]."""
        k = (self.k0 - self.gamma * bits.double()).clamp_min(0.0)[:, None]
        depth = torch.arange(num_layers, dtype=torch.float64) * _DEPTH / num_layers
        curve = _HEIGHT / (1.0 + torch.exp(k * (depth - self.x0 - k)))
        return torch.cat([torch.ones_like(curve[:, :first]), curve[:, first:]], dim=-1)

    def schedules(self, test: Any, sizes: SampleSizes, budget: float) -> Schedule:
        """Read the attention on the inputs of a `TaskEvaluator`: whole tokens of each within the budget."""
        layer = sizes.num_layers // _DEPTH
        bits = _read_mutual_information(test, layer)
        if self.heads is not None:
            bits = bits * self.heads / sizes.cost.dimensions.heads
        first = max(sizes.earliest_layer, layer + 1)
        raw = self.curve(bits, sizes.num_layers, first)

        def scaled(factor: Tensor) -> Tensor:
            moved = (raw * factor[..., None]).clamp(max=1.0)
            return torch.cat([torch.ones_like(moved[..., :first]), moved[..., first:]], dim=-1)

        most = 1.0 / float(raw.min().clamp_min(1e-6))
        curves = solve_curve(scaled, budget, sizes.workload, sizes.cost, most=most)
        limits = torch.full((len(sizes),), budget, dtype=torch.float64)
        counts = snap(curves, limits, sizes.workload, sizes.cost, fill=False)
        return Schedule.from_counts(counts, sizes.num_visual.tolist())


@torch.no_grad()
def _read_mutual_information(evaluator: Any, layer: int) -> Tensor:
    """Bits, summed over the heads of one layer of the unpruned model: float64 [S], in the order of the samples."""
    places: list[int] = []
    found: list[Tensor] = []
    for rows, layout, run in unpruned_passes(evaluator):

        def see(place: int, call: AttentionCall) -> None:
            if place == layer:
                found.append(_attention_bits(call, layout).cpu())  # noqa: B023 - used in this round only

        with attention_calls(evaluator.model, see):
            run()
        places += rows
    return torch.cat(found)[torch.tensor(places).argsort()]


def _attention_bits(call: AttentionCall, layout: TokenLayout) -> Tensor:
    """Mutual information of one attention call, text to visual tokens, head by head, added up: float64 [B]."""
    last = layout.length - 1
    columns, slots = layout.visual_index.clamp(max=last), layout.is_visual_slot
    rows, present = layout.instruction_index.clamp(max=last), layout.has_instruction
    total = torch.zeros(layout.batch_size, dtype=torch.float64, device=columns.device)
    for head in range(call.query.shape[1]):
        weights = attention_weights(call.of_head(head), rows)[:, 0]  # [B, R, K]
        seen = weights.gather(-1, columns[:, None].expand(-1, rows.shape[1], -1)).masked_fill(~slots[:, None], 0.0)
        total += _information(seen, present)
    return total


def _information(weights: Tensor, present: Tensor | None = None) -> Tensor:
    """Mutual information in bits of rows and columns: weights [B, R, V] >= 0 -> float64 [B].

    A row is a distribution over columns once it is divided by its sum; rows are equally likely. present: bool [B, R], the
    rows that count; None for all. A row of zeros, which sees nothing of the columns, never counts.
    """
    given = weights.double()
    total = given.sum(-1)  # [B, R]
    given = given / total[..., None].clamp_min(_TINY)  # p(column | row)
    share = ((total > 0) if present is None else present & (total > 0)).double()
    share = share / share.sum(-1, keepdim=True).clamp_min(1.0)  # p(row)
    column = (share[..., None] * given).sum(1, keepdim=True)  # p(column)
    each = given * (given.clamp_min(_TINY).log2() - column.clamp_min(_TINY).log2())
    return (share[..., None] * each).sum((-1, -2))
