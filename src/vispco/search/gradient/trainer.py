"""The paper's training of a predictor: one gradient through the relaxed model, for all samples and all budgets at once.

The loop, with its ranks and checkpoints, is that of `training_loop`; the violation is averaged over ranks, too, before any
multiplier moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from torch import Tensor

from vispco.cost.solve import PARAMETER_LIMIT
from vispco.pruner.predictor import Predictor
from vispco.search.batch import Batch
from vispco.search.gradient.lagrangian import AugmentedLagrangian, LagrangianSettings
from vispco.search.gradient.projection import Pricing, project
from vispco.search.gradient.static import DescentSettings, Solver, annealed_gamma
from vispco.search.gradient.training_loop import TrainingLoop, tensors_of
from vispco.search.gradient.training_settings import TrainingSettings, draw_budgets
from vispco.search.initial_shapes import initial_shapes
from vispco.search.objective import Objective


class PredictorTrainer(TrainingLoop):
    """Trains a predictor over prepared batches; `run()` gives the history of KL and violation.

    One record a step: KL, violation, w and lambda (their means over bins). The rest is said of `TrainingLoop`.
    """

    part = "predictor"

    def __init__(
        self,
        objective: Objective,
        predictor: Predictor,
        batches: Sequence[Batch],
        *,
        solver: Solver = "projection",
        plan: TrainingSettings | None = None,
        settings: LagrangianSettings | None = None,
        directory: str | Path | None = None,
        accelerator: Accelerator | None = None,
    ) -> None:
        self.plan, self.solver, self.kernel = plan or TrainingSettings(), solver, predictor.kernel
        self.multiplier = AugmentedLagrangian(settings or LagrangianSettings(), bins=self.plan.bins)
        self.statistics = torch.zeros(3, self.plan.bins, dtype=torch.float64)
        cheapest = initial_shapes(self.kernel, objective.cost.num_layers)
        cheapest[:, self.kernel.budget_parameter] = -PARAMETER_LIMIT
        self.cheapest = self.kernel(cheapest, objective.cost.num_layers)  # [K, L]
        super().__init__(objective, predictor, batches, self.plan, directory=directory, accelerator=accelerator)

    def lowest_budgets(self, batch: Batch) -> Tensor:
        """The least budget [B] that the solver can meet for each sample.

        Projection cuts any curve to a budget. A multiplier does not: below what the kernel's curves can cost (three equal
        steps keep everything before the first) it would grow without bound and drive the parameters to where no gradient
        is left, at all budgets.
        """
        objective, B = self.objective, len(batch)
        if self.solver == "projection":
            return objective.cost.lowest_fraction(objective.workload(batch.sizes).pinned(self.kernel.earliest_layer))
        K = len(self.cheapest)
        prices = Pricing(objective.workload(batch.sizes.repeat(K, 1)), objective.cost)
        return prices.fraction(self.cheapest.repeat_interleave(B, 0)).view(K, B).amin(0)

    def loss(self, batch: Batch, place: int) -> tuple[Tensor, Tensor]:
        """Mean KL and mean penalty of a batch at budgets that are drawn."""
        objective, cost = self.objective, self.objective.cost
        budget = draw_budgets(place, self.lowest_budgets(batch), self.plan.seed)
        params = self.module(batch.observation, budget).double().cpu()
        # so that every parameter has a gradient on every rank, also where nothing is pruned
        unused = 0.0 * params.sum()
        pricing = Pricing(objective.workload(batch.sizes), cost)
        gamma = annealed_gamma(self.kernel, DescentSettings(gamma=self.plan.gamma, outer=self.plan.steps), self.step)
        if self.solver == "projection":
            retention = project(self.kernel, params, budget, pricing, gamma=gamma)
            kl = objective.relaxed_kl(batch, retention).mean() + unused.to(batch.teacher)
            return kl, torch.zeros_like(kl)
        retention = self.kernel(params, cost.num_layers, gamma=gamma)
        h = budget - pricing.fraction(retention)
        bins = self.multiplier.bin_of(budget)
        if self.step % self.plan.inner >= self.plan.inner // 2:  # the end of an inner solve
            self.statistics += self.multiplier.statistics(h, bins)
        kl = objective.relaxed_kl(batch, retention).mean() + unused.to(batch.teacher)
        return kl, self.multiplier.penalty(h, bins).mean().to(kl.device)

    def after_step(self) -> dict[str, float]:
        """Moves the multipliers at the end of an inner solve."""
        if (self.step + 1) % self.plan.inner == 0:
            self.multiplier.update(self.mean(self.statistics))  # sums over ranks and means differ by a factor only
            self.statistics.zero_()
        seen = self.multiplier.violation.isfinite()
        if self.solver != "lagrangian" or not bool(seen.any()):
            return {}
        return {
            "violation": float(self.multiplier.violation[seen].mean()),
            "w": float(self.multiplier.w[seen].mean()),
            "lambda": float(self.multiplier.lam[seen].mean()),
        }

    def state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        tensors = {f"multiplier.{name}": tensor for name, tensor in self.multiplier.state_dict().items()}
        return tensors | {"statistics": self.mean(self.statistics)}, {"solver": self.solver}

    def load_state(self, tensors: dict[str, Tensor], counters: dict[str, Any]) -> None:  # noqa: ARG002
        self.multiplier.load_state_dict(tensors_of("multiplier", tensors))
        self.statistics = tensors["statistics"]
