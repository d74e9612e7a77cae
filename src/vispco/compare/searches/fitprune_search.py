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
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival, unpruned_passes
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.core.layout import TokenLayout
from vispco.core.schedule import Schedule
from vispco.engine import attention_calls
from vispco.engine.attention import AttentionCall
from vispco.engine.rows import received_attention
from vispco.evaluation.sample_sizes import SampleSizes

_NOISE = 1e-9  # of a layer's total: sums in another order differ by less


@SEARCHES.register
@dataclass(frozen=True)
class _FitPruneSearch(Rival):
    """Bisection on attention mass. samples: how many of the calibration samples are looked at; None for all."""

    name: ClassVar[str] = "fitprune"

    tolerance: float = 0.01
    samples: int | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.tolerance < 1.0:
            raise InvalidInputError(f"tolerance={self.tolerance} was given to {self.name!r}. Give a number in (0, 1).")

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        few = calibration.first(len(calibration.sizes) if self.samples is None else self.samples)
        attention = _read_received_attention(self.require_model(few, "reads a model's attention"))
        calibration.bill.spent.teacher += float(few.sizes.cost.full(few.sizes.workload).sum())
        sizes, size = few.sizes, few.sizes.cost.dimensions
        pairs = ((attention.rows + sizes.num_visual) * (sizes.num_text + sizes.num_visual)).sum()  # of queries and keys
        reading = pairs * 2 * size.heads * size.head_dim * sizes.num_layers
        calibration.bill.spent.measured += float(reading)
        alpha, counts = _bisect(attention, few.sizes, budget, self.tolerance)
        return Choice(_recipe(counts, few.sizes), provenance={"alpha": alpha, "looked_at": len(few.sizes)})


def _bisect(attention: _ReceivedAttention, sizes: SampleSizes, budget: float, tolerance: float) -> tuple[float, Tensor]:
    """The least alpha (to `tolerance`) whose walk meets the budget, and its counts [S, L]."""
    low, high = 0.0, 1.0
    met, counts = _walk(attention, sizes, budget, high)
    while met and high - low > tolerance:
        middle = (low + high) / 2
        reached, tried = _walk(attention, sizes, budget, middle)
        if reached:
            high, counts = middle, tried
        else:
            low = middle
    return high, counts


def _walk(attention: _ReceivedAttention, sizes: SampleSizes, budget: float, alpha: float) -> tuple[bool, Tensor]:
    """Delete layer by layer until what was spent and the forecast meet the budget: did they, and the counts [S, L]."""
    live = attention.present
    counts = sizes.num_visual[:, None].repeat(1, sizes.num_layers)
    for layer in range(sizes.num_layers - 1):
        if float(sizes.fractions(counts).mean()) <= budget:
            return True, counts
        cross, own = attention.cross[:, layer].double(), attention.own[:, layer].double()
        live = live & ~(_dispensable(cross, live, alpha) & _dispensable(own, live, alpha))
        counts[:, layer + 1 :] = live.sum(-1)[:, None]  # the forecast: nothing more leaves
    return float(sizes.fractions(counts).mean()) <= budget, counts


def _dispensable(mass: Tensor, live: Tensor, alpha: float) -> Tensor:
    """The most live tokens, least attended first, without which (1 - alpha) of the layer's mass [S, V] is left."""
    total = mass.sum(-1, keepdim=True)
    order = torch.where(live, mass, torch.inf).argsort(dim=-1, stable=True)
    ascending = torch.where(live, mass, 0.0).gather(-1, order)
    left = ascending.sum(-1, keepdim=True) - ascending.cumsum(-1)
    goes = left >= (1.0 - alpha - _NOISE) * total
    return torch.zeros_like(live).scatter(-1, order, goes) & live


def _recipe(counts: Tensor, sizes: SampleSizes) -> Schedule:
    """The mean share of tokens that each layer's input keeps, over the samples that have a picture: counts [S, L]."""
    seen = sizes.num_visual > 0
    if not bool(seen.any()):
        return Schedule.full(sizes.num_layers)
    share = counts[seen].double() / sizes.num_visual[seen, None].double()
    return Schedule(tuple(share.mean(0).tolist()))


@dataclass(frozen=True, eq=False)
class _ReceivedAttention:
    """For S samples and V visual slots (the largest count). Each row takes the maximum over heads, as FitPrune does.

    cross: [S, L, V], the sum over the instruction tokens that can see the image. own: [S, L, V], the mean over the visual
    tokens. present: bool [S, V], the slots that hold a token. rows: int64 [S], how many text rows were summed.
    """

    cross: Tensor
    own: Tensor
    present: Tensor
    rows: Tensor


def _received(call: AttentionCall, layout: TokenLayout) -> tuple[Tensor, Tensor]:
    """Return the attention that visual tokens receive from text (sum) and from each other (mean): float32 [B, V] each."""
    last = layout.length - 1
    columns, slots = layout.visual_index.clamp(max=last), layout.is_visual_slot
    text = layout.instruction_index
    cross = received_attention(call, text.clamp(max=last), columns, "max", present=text <= last)
    own = received_attention(call, columns, columns, "max", present=slots)
    own = own / slots.sum(-1, keepdim=True).clamp(min=1)
    return cross.masked_fill(~slots, 0.0), own.masked_fill(~slots, 0.0)


@torch.no_grad()
def _read_received_attention(evaluator: Any) -> _ReceivedAttention:
    """Read the attention on the prompts of all samples of a `TaskEvaluator`, in its order."""
    places: list[int] = []
    rows: list[Tensor] = []
    parts: dict[str, list[Tensor]] = {"cross": [], "own": [], "present": []}
    for samples, layout, run in unpruned_passes(evaluator):
        read: list[tuple[Tensor, Tensor]] = []
        with attention_calls(evaluator.model, lambda _, call: read.append(_received(call, layout))):  # noqa: B023 - used in this round only
            run()
        places += samples
        rows += (layout.instruction_index < layout.length).sum(-1).cpu().unbind()
        cross, own = zip(*read, strict=True)
        parts["cross"] += torch.stack(cross, dim=1).cpu().unbind()  # B of [L, V]
        parts["own"] += torch.stack(own, dim=1).cpu().unbind()
        parts["present"] += layout.is_visual_slot.cpu().unbind()
    order = torch.tensor(places).argsort()
    width = max(slots.shape[0] for slots in parts["present"])

    def joined(name: str) -> Tensor:
        return torch.stack([nn.functional.pad(part, (0, width - part.shape[-1])) for part in parts[name]])[order]

    return _ReceivedAttention(joined("cross"), joined("own"), joined("present"), torch.stack(rows)[order])
