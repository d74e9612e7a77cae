"""BTP's layer picker: tokens leave behind the layers that change them most.

Li et al., "Balanced Token Pruning: Accelerating Vision Language Models Beyond Local Optimization" (NeurIPS 2025). Its
code could not be read; this follows what is reported of it.

Faithful: one unpruned pass over 64 calibration samples; the mean cosine between the states of the visual tokens before
and after each layer; stages stand behind the layers where it is lowest.

Not faithful: what is kept at each stage is set by hand there; here every stage keeps the same share of what is left,
solved to the budget. Stages that are so deep that the layers before them exceed the budget are cut by the budget. Which
tokens stay is up to the comparison's scorer (`btp` is a scorer of its own).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival, solve_curve, unpruned_passes
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.indexing import batch_index
from vispco.core.layout import TokenLayout
from vispco.core.schedule import Schedule
from vispco.engine import layer_inputs
from vispco.evaluation.sample_sizes import SampleSizes


@SEARCHES.register
@dataclass(frozen=True)
class _BtpLayers(Rival):
    """Stages where the visual states change most. samples: how many calibration samples are looked at."""

    name: ClassVar[str] = "btp-layers"
    least: ClassVar[Mapping[str, float]] = {"stages": 1, "samples": 1}

    stages: int = 3
    samples: int = 64

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        few = calibration.first(self.samples)
        similarity = _layer_similarity(self.require_model(few, "reads a model's states"))
        calibration.bill.spent.teacher += float(few.sizes.cost.full(few.sizes.workload).sum())
        layers = _pick_layers(similarity, self.stages, calibration.sizes.earliest_layer)
        provenance = {"layers": layers, "similarity": similarity.tolist(), "looked_at": len(few.sizes)}
        return Choice(_equal_stages(layers, budget, calibration.sizes), provenance=provenance)


@torch.no_grad()
def _layer_similarity(evaluator: Any) -> Tensor:
    """The mean cosine of the visual states before and after each layer but the last: float64 [L - 1]."""
    total, tokens = torch.zeros(evaluator.num_layers - 1, dtype=torch.float64), 0
    for _, layout, run in unpruned_passes(evaluator):
        total += _summed_cosines(evaluator.model, layout, run)
        tokens += int(layout.is_visual_slot.sum())
    return total / max(1, tokens)


def _summed_cosines(model: Any, layout: TokenLayout, run: Callable[[], Any]) -> Tensor:
    """The cosines of one pass, summed over the visual tokens: float64 [L - 1]."""
    rows, places = batch_index(layout.batch_size, layout.visual_index.device), layout.visual_columns
    before: list[Tensor] = []
    sums: list[Tensor] = []

    def see(_: int, hidden: Tensor) -> None:
        now = hidden[rows, places].float()
        if before:
            each = cosine_similarity(before.pop(), now, dim=-1)
            sums.append(each.masked_fill(~layout.is_visual_slot, 0.0).sum().double().cpu())
        before.append(now)

    with layer_inputs(model, see):
        run()
    return torch.stack(sums)


def _pick_layers(similarity: Tensor, stages: int, first: int) -> list[int]:
    """The layers whose input differs most from that of the layer before, from `first` on, ascending."""
    entered = [(float(value), layer + 1) for layer, value in enumerate(similarity) if layer + 1 >= first]
    return sorted(layer for _, layer in sorted(entered)[:stages])


def _equal_stages(layers: list[int], budget: float, sizes: SampleSizes) -> Schedule:
    """From each of the layers on, the same share of what was left: the largest that meets the budget at a typical size."""
    passed = (torch.arange(sizes.num_layers)[:, None] >= torch.tensor(layers)).sum(-1)  # [L] stages
    return Schedule(
        tuple(solve_curve(lambda share: share[..., None] ** passed, budget, sizes.typical, sizes.cost)[0].tolist())
    )
