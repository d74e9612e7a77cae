"""BTP's layer picker: tokens leave behind the layers that change them most.

Li et al., "Balanced Token Pruning: Accelerating Vision Language Models Beyond Local Optimization" (NeurIPS 2025). Its code
could not be read; this follows what is reported of it.

Faithful: one unpruned pass over 64 calibration samples; the mean cosine between the states of the visual tokens before and
after each layer; stages stand behind the layers where it is lowest.

Not faithful: what is kept at each stage is set by hand there; here every stage keeps the same share of what is left, solved
to the budget. Stages that are so deep that the layers before them exceed the budget are cut by the budget. Which tokens stay
is up to the comparison's scorer (`btp` is a scorer of its own).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival, solve_curve
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.core.indexing import batch_index
from vispco.core.schedule import Schedule
from vispco.engine import layer_inputs
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.families import family_of


@SEARCHES.register
@dataclass(frozen=True)
class BtpLayers(Rival):
    """Stages where the visual states change most. samples: how many calibration samples are looked at."""

    name: ClassVar[str] = "btp-layers"

    stages: int = 3
    samples: int = 64

    def __post_init__(self) -> None:
        if self.stages < 1 or self.samples < 1:
            raise InvalidInputError(
                f"stages={self.stages}, samples={self.samples} were given to {self.name!r}. Give at least 1 of each."
            )

    def _search(self, calibration: Calibration, budget: float | None) -> Choice:
        assert budget is not None  # noqa: S101 - needs_budget
        few = calibration.first(self.samples)
        similarity = layer_similarity(self.require_model(few, "reads a model's states"))
        calibration.bill.spent.teacher += float(few.sizes.cost.full(few.sizes.workload).sum())
        layers = pick_layers(similarity, self.stages, calibration.sizes.earliest_layer)
        provenance = {"layers": layers, "similarity": similarity.tolist(), "looked_at": len(few.sizes)}
        return Choice(equal_stages(layers, budget, calibration.sizes), provenance=provenance)


@torch.no_grad()
def layer_similarity(evaluator: Any) -> Tensor:
    """The mean cosine of the visual states before and after each layer but the last: float64 [L - 1]."""
    model, tokens = evaluator.model, 0
    total = torch.zeros(evaluator.num_layers - 1, dtype=torch.float64)
    for batch in evaluator.batches:
        encoded = evaluator.store.encode(batch.samples)
        layout = family_of(model).layout(model, encoded.inputs)
        slots, rows = layout.is_visual_slot, batch_index(layout.batch_size, layout.visual_index.device)
        places = layout.visual_index.clamp(max=layout.length - 1)
        before: list[Tensor] = []
        sums: list[Tensor] = []

        def see(_: int, hidden: Tensor) -> None:
            now = hidden[rows, places].float()  # noqa: B023 - used in this round only
            if before:  # noqa: B023
                each = cosine_similarity(before.pop(), now, dim=-1)  # noqa: B023
                sums.append(each.masked_fill(~slots, 0.0).sum().double().cpu())  # noqa: B023
            before.append(now)  # noqa: B023

        with layer_inputs(model, see):
            model(**encoded.inputs, use_cache=False, logits_to_keep=1)
        total += torch.stack(sums)
        tokens += int(slots.sum())
    return total / max(1, tokens)


def pick_layers(similarity: Tensor, stages: int, first: int) -> list[int]:
    """The layers whose input differs most from that of the layer before, from `first` on, ascending."""
    entered = [(float(value), layer + 1) for layer, value in enumerate(similarity) if layer + 1 >= first]
    return sorted(layer for _, layer in sorted(entered)[:stages])


def equal_stages(layers: list[int], budget: float, sizes: SampleSizes) -> Schedule:
    """From each of the layers on, the same share of what was left: the largest that meets the budget at a typical size."""
    passed = (torch.arange(sizes.num_layers)[:, None] >= torch.tensor(layers)).sum(-1)  # [L] stages
    return Schedule(
        tuple(solve_curve(lambda share: share[..., None] ** passed, budget, sizes.typical, sizes.cost)[0].tolist())
    )
