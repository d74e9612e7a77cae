"""Evaluates a planner that a search found: a point of its frontier, with what was planned for the samples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from vispco.core.layout import TokenLayout
from vispco.core.schedule import Schedule
from vispco.cost import Cost
from vispco.engine.plan import TokenPlan
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.evaluation.frontier import Point
from vispco.pruner.budget_planner import BudgetPlanner
from vispco.pruner.joint_planner import JointPlanner
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.scorers.mixture import chains_of
from vispco.search.joint.space import single_selectors


class _PlanRecorder:
    """A planner that remembers what it planned: the mean retention, and for how many samples."""

    def __init__(self, planner: BudgetPlanner | JointPlanner) -> None:
        self.planner = planner
        self.tower: tuple[float, ...] | None = getattr(planner, "tower", None)
        self.follow: dict[str, list[Tensor]] = {}  # what was planned for the samples of each chain
        self._sum: Tensor | None = None
        self.samples = 0

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        plan = self.planner(layout, embeddings)
        visual = torch.tensor(layout.whole.num_visual, dtype=torch.float64)
        retention = (plan.counts / visual.clamp_min(1)[:, None]).sum(0)
        self._sum = retention if self._sum is None else self._sum + retention
        self.samples += len(visual)
        if isinstance(self.planner, JointPlanner):
            chains, shares = chains_of(self.planner.chain), plan.counts / visual.clamp_min(1)[:, None]
            for row, group in enumerate(plan.groups or (0,) * len(visual)):
                self.follow.setdefault(str(chains[group]), []).append(shares[row])
        return plan

    def methods(self) -> list[dict[str, Any]]:
        """Which chains the samples followed: each with its share of them, and what they kept on average."""
        found = []
        for name, rows in sorted(self.follow.items(), key=lambda each: -len(each[1])):
            stages = [{"layer": layer, "scorer": scorer.name} for layer, scorer in Chain.of(name).stages]
            mean = torch.stack(rows).mean(0).clamp(0, 1).cummin(0).values
            found.append(
                {"chain": name, "stages": stages, "share": len(rows) / self.samples, "retention": mean.tolist()}
            )
        return found

    def schedule(self) -> Schedule:
        """The mean over all samples so far: what a per-sample planner does on the whole."""
        if self._sum is None:
            return Schedule.full(self.planner.cost.num_layers)
        most = 1.0 if self.tower is None else self.tower[-1]
        return Schedule(tuple((self._sum / self.samples).clamp(0, most).cummin(0).values.tolist()), self.tower)


def with_selector(point: Point, judge: TaskEvaluator, cost: Cost) -> Point:
    """The point with the paired difference to the best single selector without a search, on the same items.

    The best of them on these very items, which flatters it.
    """
    selectors = single_selectors(point.provenance["budget"], cost)
    found = {name: judge(Pruner(name, planner)) for name, planner in selectors.items()}
    name, evaluation = max(found.items(), key=lambda each: each[1].accuracy)
    paired = point.evaluation.paired(evaluation)
    about = {"selector": name, "accuracy": evaluation.accuracy, **({} if paired is None else paired.to_dict())}
    return replace(point, provenance={**point.provenance, "without_search": about})


def evaluate_planner(
    planner: BudgetPlanner | JointPlanner,
    budget: float,
    judge: TaskEvaluator,
    provenance: Mapping[str, Any],
    say: Callable[[str], None] = lambda _: None,
) -> Point:
    """Evaluate the planner of a budget; the point's schedule is the mean retention over the samples."""
    say(f"evaluating the budget {budget:g} on {len(judge.samples)} samples")
    recorded = _PlanRecorder(planner)
    setting = getattr(planner, "setting", None)
    about: dict[str, Any] = {"budget": budget}
    if setting is not None:
        about |= {"asked": str(planner.whole), "pictures": setting.name}  # type: ignore[union-attr]
    if isinstance(planner, JointPlanner):
        evaluation = judge(Pruner(planner.chain, recorded, pixels=1.0 if setting is None else setting.pixels))
        about["methods"] = recorded.methods()
    else:
        evaluation = judge(recorded)
    return Point(recorded.schedule(), evaluation, {**about, **provenance}, mean_of=recorded.samples)
