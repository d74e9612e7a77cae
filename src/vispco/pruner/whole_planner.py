"""The planner of a budget of the whole prefill: what the vision tower spent is charged, and the rest solved for what entered."""

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.layout import Array, TokenLayout
from vispco.cost import Budget, BudgetLike, Cost, Exact, Workload
from vispco.engine.plan import TokenPlan
from vispco.pruner.budget_planner import SampleBudgets, tower_spent
from vispco.pruner.joint_planner import JointChoice, JointPlanner
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.mean_budget import COARSE, KlCurves, MeanController
from vispco.pruner.picture_setting import PictureSetting

_LEAST_SHARE = 1e-6
Shares: TypeAlias = Sequence[tuple[float, float]]


class WholePlanner(JointPlanner):
    """A joint planner under a tower setting. What entered the language model is to it what a whole prompt is to others.

    budget: `0.4p`, which holds for every sample, or `mean:0.4p,max:0.6p`, of which the cap does. shares: of each calibration sample
    (or their mean) what its tower spends under this setting, and its language model on what enters, both of its unpruned
    whole prefill: a mean budget is solved by them. controller: see `JointPlanner`; its mean is of the whole prefill.
    """

    def __init__(
        self,
        predictor: JointPredictor,
        budget: BudgetLike,
        setting: PictureSetting,
        shares: Shares,
        controller: MeanController | None = None,
    ) -> None:
        self.whole, self.setting, self.tower = Budget.of(budget), setting, setting.retention
        if self.whole.kind != "prefill":
            raise InvalidInputError(
                f"The budget {self.whole} was given. What was searched for the whole prefill runs at budgets of it: 0.4p, or "
                "mean:0.4p,max:0.6p."
            )
        inner: BudgetLike = 1.0
        table = np.array(shares, dtype=np.float64).reshape(-1, 2)
        spent, entering = table.mean(axis=0).tolist()
        self._weights = table[:, 1] / entering
        if self.whole.cap is not None:
            amount, cap = (
                min(1.0, max(_LEAST_SHARE, (n - spent) / entering)) for n in (self.whole.amount, self.whole.cap)
            )
            inner = Budget("flops", amount, cap)
        super().__init__(predictor, inner, controller)
        self.cost = Exact(self.cost.dimensions)
        self._most = self.whole.amount if self.whole.cap is None else self.whole.cap
        if self._ladder is not None:
            self._whole_ladder = replace(self._ladder, means=spent + entering * self._ladder.means)

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        entered, controller = entered_layout(layout), self.controller
        sizes, most = entered.prompt_sizes, entering_shares(self.cost, layout, self._most)
        estimate = np.where(self.usable, self.reader.estimate(entered, embeddings), np.inf)
        floors, budget = self._lowest(sizes), most
        (spent, entering), seen, given = prefill_shares(self.cost, layout), sizes[:, 1] > 0, most
        if controller is not None:
            assert self._ladder is not None  # noqa: S101 - made with the mean budget
            spend = self._ladder.spend(self._curves(estimate, floors[:, 0]))  # of the language model, [B, P]
            whole = spent[:, None] + entering[:, None] * spend
            given = whole[:, self._ladder.place].copy()
            given[seen] = controller.budgets(self._whole_ladder, whole[seen])
            budget = np.minimum(COARSE * np.floor((given - spent) / entering / COARSE + 1e-6), most)
        elif self.multiplier is not None:
            budget = np.minimum(self._curves(estimate, floors[:, 0]).spend(self.multiplier), most)
        anchor = self.known.best(estimate, budget, floors)
        plan = self._plan(sizes, JointChoice(anchor, budget))
        if controller is not None:
            taken = spent + entering * self._fractions(sizes, anchor, plan.counts.numpy())
            controller.settle(given[seen], taken[seen])
        return plan

    def _calibration(self) -> tuple[KlCurves, Callable[[Array], Array]]:
        """Samples count by what their language model takes of the whole prefill."""
        curves, realised = super()._calibration()
        return curves, lambda budget: realised(budget) * self._weights


def prefill_shares(cost: Cost, layout: TokenLayout) -> tuple[Array, Array]:
    """What each sample's tower spent, and its language model on all that entered, of its unpruned whole prefill: [B] each."""
    tower, whole = layout.whole_pictures
    text = torch.tensor(layout.num_prompt)
    full, own = (
        cost.full(Workload(text, n, "entry", 0)).double().numpy()
        for n in (torch.from_numpy(whole), torch.tensor(layout.num_visual))
    )
    return tower_spent(layout) / (tower + full), own / (tower + full)


def entering_shares(cost: Cost, layout: TokenLayout, budget: float) -> Array:
    """What each sample's language model may spend of a budget of the whole prefill, of what it takes on all that entered: [B]."""
    text, visual = (torch.tensor(each) for each in (layout.num_prompt, layout.num_visual))
    whole = torch.from_numpy(layout.whole_pictures[1])
    entered, full = (cost.full(Workload(text, n, "entry", 0)).double().numpy() for n in (visual, whole))
    found: Array = np.minimum(
        1.0, SampleBudgets(Budget("prefill", budget), cost)(layout) * full / np.maximum(entered, 1.0)
    )
    return found


def entered_layout(layout: TokenLayout) -> TokenLayout:
    """The layout of a prompt that has only what entered the language model."""
    if type(layout) is TokenLayout and layout.pixels == 1.0:
        return layout
    given = {each.name: getattr(layout, each.name) for each in fields(TokenLayout) if each.init}
    return TokenLayout(**{**given, "pixels": 1.0, "known": {}})
