"""VisPCO's own searches as methods of a comparison: on the same calibration set, under the same budget, on one bill.

The bill is that of the whole search: teacher passes, relaxed passes forward and backward, and schedules that were
measured. A predictor learns all budgets at once, so its bill is for all of them, and the comparison shows it at one.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass
from typing import Any

from vispco import kernels
from vispco.errors import InvalidInputError
from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import Entrant
from vispco.search import presets
from vispco.search.calibration import Prepared
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.modes import Effort, Mode, carry_out
from vispco.search.objective import Objective


@dataclass(frozen=True)
class Own:
    """A search of `vispco.search` by mode, solver and kernel, with the paper's preset for the model."""

    label: str
    mode: Mode
    solver: str
    kernel: str

    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def contend(self, calibration: Calibration, budget: float, *, effort: Effort | None = None) -> Entrant:
        """Search for one budget; the result is a planner, which meets the budget on every sample."""
        evaluator, effort = calibration.evaluator, effort or Effort()
        if not hasattr(evaluator, "model"):
            raise InvalidInputError(
                f"The search {self.label!r} runs the model itself, and {type(evaluator).__name__} has none. "
                "Give a TaskEvaluator."
            )
        model, scorer, cost = evaluator.model, evaluator.scorer, calibration.sizes.cost.name
        kernel = kernels.get(self.kernel, first_full=scorer.needs_attention)
        row = presets.for_model(model.config, self.kernel)
        objective = Objective(model, scorer, cost=cost, relaxation=GaussianMask(row.sigma, row.temperature))
        began = time.perf_counter()
        batches = Prepared(
            model,
            evaluator.processor,
            evaluator.samples,
            batch_size=effort.batch_size,
            store=evaluator.store,
            on_new=objective.learned,
        )
        outcome = carry_out(
            objective,
            batches,
            kernel,
            [budget],
            mode=self.mode,
            solver=self.solver,
            preset=row,
            effort=effort,
            cost=cost,
        )
        seconds = time.perf_counter() - began
        found = outcome.found[0]
        seen = {
            "settings": self.settings(),
            "params": found.params.tolist(),
            "kl": found.kl,
            "samples": len(batches.samples),
        }
        planner = outcome.planner(objective, kernel, budget)
        return Entrant(self.label, planner, objective.spent, seconds, provenance=seen)


OWN = {
    own.label: own
    for own in (
        Own("vispco-paper", "static", "lagrangian", "multi-step"),
        Own("vispco-static", "static", "projection", "steps"),
        Own("vispco-predictor", "predictor", "table", "steps"),
    )
}
