"""Planners of one chain: whole tokens within its budget for every sample."""

import math
import warnings
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import torch
from torch import Tensor

from vispco.core.cut_layout import CutLayout
from vispco.core.errors import InvalidInputError
from vispco.core.layout import Array, TokenLayout
from vispco.cost import Budget, BudgetLike, BudgetWarning, Cost, Exact, MovableCurves, Workload
from vispco.engine.plan import PlanMemory, TokenPlan
from vispco.kernels import Kernel
from vispco.pruner.observation import MAX_TEXT, observe
from vispco.pruner.predictor import Predictor
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under

Shape = Callable[[TokenLayout, Tensor], Tensor]
"""(layout, embeddings [B, N, D]) -> kernel parameters [B, P]."""
_MAX_CACHED_ROWS = 1 << 16
_ROUNDING = 1e-12  # of the language model's FLOPs, so that no rounding lifts a whole prefill over its budget


def deployed_gamma(kernel: Kernel) -> float | None:
    """The gamma at deployment: infinite (hard steps) for kernels whose gamma is annealed, else the kernel's own."""
    return math.inf if kernel.annealable else None


class SampleBudgets:
    """The fraction of its language model's FLOPs that each sample of a batch may spend.

    Of a budget of the whole prefill (0.4p) the vision tower is paid first, and the rest is left for the language model. Where
    pictures enter with a share of their pixels, a budget is a fraction of what the whole pictures take.
    """

    def __init__(self, budget: BudgetLike, cost: Cost) -> None:
        self.budget, self.cost = Budget.of(budget), cost
        if self.budget.kind not in ("flops", "prefill"):
            raise InvalidInputError(
                f"The budget {self.budget} was given where FLOPs are meant. Give 0.5, 50% or 0.4p, of the whole prefill."
            )

    def __call__(self, layout: TokenLayout) -> Array:
        """float64 [B]."""
        if self.budget.kind == "flops":
            return np.full(layout.batch_size, self.budget.amount)
        tower, whole = layout.whole_pictures  # of the unpruned model
        text, visual = (torch.tensor(each) for each in (layout.num_prompt, layout.num_visual))
        size = Workload(text, visual, "entry", 0, num_shown=torch.from_numpy(whole))
        full = np.maximum(self.cost.full(size).numpy().astype(np.float64), 1.0)
        spent = tower_spent(layout)
        share = (self.budget.amount * (tower + full) - spent) / full
        floor = self.cost.lowest_fraction(size).numpy()  # what the text alone takes
        under = (share < np.minimum(floor, 1.0)) & (visual.numpy() > 0)
        if under.any():
            lowest = float(np.where(under, (spent + floor * full) / (tower + full), 0.0).max())
            warnings.warn(
                f"A budget of {self.budget.label} lies under the floor of {math.ceil(1000 * lowest) / 10:.4g}% of the whole "
                f"prefill: what the vision tower and the text cost ({int(under.sum())} of {under.size} samples). It was raised "
                "to the floor.",
                BudgetWarning,
                stacklevel=2,
            )
        raised = np.maximum(share - _ROUNDING, np.minimum(floor, 1.0))
        return np.where(share >= 1.0, 1.0, raised)


def tower_spent(layout: TokenLayout) -> Array:
    """FLOPs of each sample's tower as it ran: int64 [B] on the host."""
    found: Array = layout.spent if isinstance(layout, CutLayout) else layout.tower_flops
    return found


class RowMemory:
    """Rows of numbers by what they follow from: samples of one size with one shape have the same tokens."""

    def __init__(self) -> None:
        self._known: dict[Hashable, Array] = {}

    def rows(self, keys: Sequence[Hashable], make: Callable[[list[int]], Array]) -> Array:
        """One row for each key: [B, ...]. make: the rows of the keys at some places, which are asked for the first time."""
        new = [place for place, key in enumerate(keys) if key not in self._known]
        if new:
            if len(self._known) > _MAX_CACHED_ROWS:
                self._known.clear()
                new = list(range(len(keys)))
            self._known |= dict(zip([keys[place] for place in new], make(new), strict=True))
        return np.stack([self._known[key] for key in keys])


class BudgetPlanner:
    """The engine's `Planner` for one budget: the shape's parameters, moved so that F <= B for **every** sample.

    The budget holds for the prompt: answer tokens that stand in the batch (teacher forcing) are not counted. chain: its scoring
    is paid for. tower: the retention before each block of a cut vision tower, see `Schedule.tower`.
    """

    def __init__(
        self,
        shape: Shape,
        kernel: Kernel,
        budget: BudgetLike,
        cost: Cost,
        *,
        chain: Chain,
        tower: tuple[float, ...] | None = None,
    ) -> None:
        self.shape, self.kernel, self.chain, self.tower = shape, kernel, chain, tower
        self.budget = Budget.of(budget)
        self.cost = Exact(cost.dimensions) if self.budget.kind == "prefill" else cost  # as the tower's FLOPs are
        self._budgets = SampleBudgets(self.budget, self.cost)
        self._solved, self._plans = RowMemory(), PlanMemory()

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        params = self.shape(layout, embeddings).detach().double().cpu()
        sizes, budget = layout.prompt_sizes, self._budgets(layout)
        keys = tuple(
            (*size, share, row.tobytes())
            for size, share, row in zip(sizes.tolist(), budget.tolist(), params.numpy(), strict=True)
        )

        def solve(places: list[int]) -> Array:
            columns = [torch.from_numpy(np.ascontiguousarray(column)) for column in sizes[places].T]
            planning = torch.from_numpy(self._planning_flops(sizes[places]))
            load = workload_under(self.chain, self.cost.dimensions, *columns, planning_flops=planning)
            gamma = deployed_gamma(self.kernel)
            curves = MovableCurves(self.kernel, params[places], self.cost.num_layers, gamma=gamma)
            return curves.counts(np.arange(len(places)), budget[places], load, self.cost)

        def make() -> TokenPlan:
            counts = torch.from_numpy(self._solved.rows(keys, solve))
            return TokenPlan(counts, planning_flops=tuple(self._planning_flops(sizes).tolist()))

        return self._plans.recall(keys, make)

    def _planning_flops(self, sizes: Array) -> Array:
        """Of samples [B, 4]: int64 [B]."""
        count = getattr(self.shape, "flops", None)
        return np.zeros(len(sizes), dtype=np.int64) if count is None else np.asarray(count(sizes), dtype=np.int64)


def static_shape(params: Tensor) -> Shape:
    """One shape [P] for every sample."""
    return lambda layout, _: params.expand(layout.batch_size, -1)


class PredictedShape:
    """The shape that a predictor gives each sample for a budget."""

    def __init__(self, predictor: Predictor, budget: BudgetLike) -> None:
        self.predictor, self.budget = predictor, budget
        self._budgets = SampleBudgets(budget, predictor.config.make_cost())

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> Tensor:
        self.predictor.to(embeddings.device)
        budgets = torch.from_numpy(self._budgets(layout)).to(embeddings.device, torch.float32)
        params: Tensor = self.predictor(observe(layout, embeddings), budgets)
        return params

    def flops(self, sizes: Array) -> Array:
        """FLOPs of one prediction for samples [B, 2 or more] with these numbers of text and visual tokens: int64 [B]."""
        return np.array([self.predictor.flops(min(text, MAX_TEXT)) for text in sizes[:, 0].tolist()], dtype=np.int64)
