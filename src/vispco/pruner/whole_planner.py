"""The planner of a budget of the whole prefill: what the vision tower spent is charged, and the rest solved for what entered."""

from dataclasses import fields

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.layout import Array, TokenLayout
from vispco.cost import Budget, BudgetLike, Cost, Exact, Workload
from vispco.engine.plan import TokenPlan
from vispco.pruner.budget_planner import SampleBudgets
from vispco.pruner.joint_planner import JointChoice, JointPlanner
from vispco.pruner.joint_predictor import JointPredictor
from vispco.pruner.picture_setting import PictureSetting

_LEAST_SHARE = 1e-6


class WholePlanner(JointPlanner):
    """A joint planner under a tower setting. What entered the language model is to it what a whole prompt is to others.

    budget: `0.4p`, which holds for every sample, or `mean:0.4p,max:0.6p`, of which the cap does. shares: the mean over
    the calibration samples of what the tower spends under this setting, and of the language model on what enters, both of
    the unpruned whole prefill: a mean budget is solved by them.
    """

    def __init__(
        self,
        predictor: JointPredictor,
        budget: BudgetLike,
        setting: PictureSetting,
        shares: tuple[float, float],
    ) -> None:
        self.whole, self.setting, self.tower = Budget.of(budget), setting, setting.retention
        if self.whole.kind != "prefill":
            raise InvalidInputError(
                f"The budget {self.whole} was given. What was searched for the whole prefill runs at budgets of it: 0.4p, or "
                "mean:0.4p,max:0.6p."
            )
        inner: BudgetLike = 1.0
        if self.whole.cap is not None:
            spent, entering = shares
            amount, cap = (
                min(1.0, max(_LEAST_SHARE, (n - spent) / entering)) for n in (self.whole.amount, self.whole.cap)
            )
            inner = Budget("flops", amount, cap)
        super().__init__(predictor, inner)
        self.cost = Exact(self.cost.dimensions)
        self._most = self.whole.amount if self.whole.cap is None else self.whole.cap

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        entered = entered_layout(layout)
        sizes, most = entered.prompt_sizes, entering_shares(self.cost, layout, self._most)
        estimate = np.where(self._usable, self.reader.estimate(entered, embeddings), np.inf)
        floors, budget = self._lowest(sizes), most
        if self.multiplier is not None:
            budget = np.minimum(self._curves(estimate, floors[:, 0]).spend(self.multiplier), most)
        anchor = self.known.best(estimate, budget, floors)
        return self._plan(sizes, JointChoice(anchor, self._chain[anchor], budget))


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
