"""VisPCO's own searches as methods of a comparison: on the same calibration set, budget and bill as the rivals.

The bill covers the whole search: unpruned passes, relaxed passes forward and backward, and evaluated schedules. A predictor
learns all budgets at once, so its bill is for all of them, while the comparison shows one.
"""

from __future__ import annotations

import time
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import torch

from vispco import kernels
from vispco.errors import InvalidInputError
from vispco.evaluation.result import Evaluator
from vispco.rivals.calibration import Calibration
from vispco.rivals.candidate import PlannerResult
from vispco.rivals.registry import SEARCHES
from vispco.search import presets
from vispco.search.calibration import CalibrationBatches
from vispco.search.gradient.relaxation import GaussianMask
from vispco.search.modes import Effort, Mode, run_mode
from vispco.search.objective import Objective


@dataclass(frozen=True)
class VispcoSearch:
    """A search of `vispco.search` by mode, solver and kernel, with the paper's preset for the model.

    seed: of everything that is drawn at random.
    """

    label: str
    mode: Mode
    solver: str
    kernel: str
    seed: int = 0

    def settings(self) -> dict[str, Any]:
        """Return the settings; without the default seed, as comparisons of earlier versions have them."""
        return {key: value for key, value in asdict(self).items() if key != "seed" or value != 0}

    def search(
        self, calibration: Calibration | Evaluator, budget: float, *, effort: Effort | None = None
    ) -> PlannerResult:
        """Search for one budget. The result is a planner that meets the budget on every sample."""
        calibration = Calibration.of(calibration)
        evaluator, effort = calibration.evaluator, effort or Effort()
        if not hasattr(evaluator, "model"):
            raise InvalidInputError(
                f"The search {self.label!r} runs the model itself, and {type(evaluator).__name__} has none. "
                "Give a TaskEvaluator."
            )
        model, scorer, cost = evaluator.model, evaluator.scorer, calibration.sizes.cost.name
        kernel = kernels.get(self.kernel, earliest_layer=scorer.earliest_layer)
        preset = presets.for_model(model.config, self.kernel)
        objective = Objective(model, scorer, cost=cost, relaxation=GaussianMask(preset.sigma, preset.temperature))
        if self.seed:
            effort = replace(effort, fit=replace(effort.fit, seed=self.seed))
        torch.manual_seed(self.seed)
        start = time.perf_counter()
        batches = CalibrationBatches(
            model,
            evaluator.processor,
            evaluator.samples,
            batch_size=effort.batch_size,
            store=evaluator.store,
            on_new=objective.add_teacher,
        )
        outcome = run_mode(
            objective,
            batches,
            kernel,
            [budget],
            mode=self.mode,
            solver=self.solver,
            preset=preset,
            effort=effort,
            cost=cost,
        )
        seconds = time.perf_counter() - start
        found = outcome.found[0]
        provenance = {
            "settings": self.settings(),
            "params": found.params.tolist(),
            "kl": found.kl,
            "samples": len(batches.samples),
        }
        planner = outcome.planner(objective, kernel, budget)
        return PlannerResult(self.label, planner, objective.spent, seconds, provenance=provenance)


def _register(label: str, mode: Mode, solver: str, kernel: str) -> None:
    SEARCHES.register(partial(VispcoSearch, label, mode=mode, solver=solver, kernel=kernel), name=label)


_register("vispco-paper", "static", "lagrangian", "multi-step")
_register("vispco-static", "static", "projection", "steps")
_register("vispco-predictor", "predictor", "table", "steps")
