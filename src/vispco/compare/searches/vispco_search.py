"""VisPCO's own searches as methods of a comparison: on the same calibration set, budget and bill as the rivals.

The bill covers the whole search: unpruned passes, relaxed passes forward and backward, and evaluated schedules. A
predictor and the joint search learn all budgets at once, so their bill is for all of them (`search_budgets`).
"""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, RivalResult
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import InvalidInputError
from vispco.evaluation.result import Evaluator
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.calibration_batches import CalibrationBatches
from vispco.search.modes import JointResult, SearchRun, run_mode
from vispco.search.search_spec import Effort, Mode, SearchSpec


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
        """Return the settings; without the default seed, as comparisons of earlier versions have them.

        gradient: versions before 0.1 projected with the gradient of the paper; their rows are searched again.
        """
        found = {key: value for key, value in asdict(self).items() if key != "seed" or value != 0}
        return {**found, "gradient": "even"} if self.solver == "projection" else found

    @property
    def learns_all_budgets(self) -> bool:
        """Whether one search serves every budget."""
        return self.mode in ("joint", "predictor")

    def search(
        self,
        calibration: Calibration | Evaluator,
        budget: float,
        *,
        effort: Effort | None = None,
        batches: CalibrationBatches | None = None,
    ) -> RivalResult:
        """Search for one budget. The result is a planner that meets the budget on every sample.

        batches: the samples of the calibration set as an earlier search had them, with what the unpruned model says.
        """
        return self.search_budgets(calibration, (budget,), effort=effort, batches=batches)[budget]

    def search_budgets(
        self,
        calibration: Calibration | Evaluator,
        budgets: Sequence[float],
        *,
        effort: Effort | None = None,
        batches: CalibrationBatches | None = None,
    ) -> dict[float, RivalResult]:
        """Search for several budgets at once. The bill of each result is that of the whole search."""
        calibration = Calibration.of(calibration)
        evaluator = calibration.evaluator
        if not hasattr(evaluator, "model"):
            raise InvalidInputError(
                f"The search {self.label!r} runs the model itself, and {type(evaluator).__name__} has none. "
                "Give a TaskEvaluator."
            )
        asked: Any = {"budgets": tuple(budgets), "cost": calibration.sizes.cost, "effort": effort, "seed": self.seed}
        if self.mode == "joint":
            spec = SearchSpec.of_chains(**asked)
        else:
            spec = SearchSpec.of(evaluator.scorer, self.kernel, mode=self.mode, solver=self.solver, **asked)
        start = time.perf_counter()
        run = SearchRun.prepare(
            evaluator.model, evaluator.processor, evaluator.samples, spec, store=evaluator.store, batches=batches
        )
        outcome = run_mode(run)
        seconds = time.perf_counter() - start
        results = {}
        for budget, found in zip(budgets, outcome.found, strict=True):
            provenance = {
                "settings": self.settings(),
                "params": found.params.tolist(),
                "kl": found.kl,
                "samples": len(evaluator.samples),
                **({} if found.chain is None else {"chain": str(Chain.of(found.chain))}),
            }
            planner: Any = outcome.planner(run, budget)
            deployed = Pruner(planner.chain, planner) if isinstance(outcome, JointResult) else planner
            choice, spent = Choice(planner=deployed), run.objective.spent
            results[budget] = RivalResult(self.label, choice, budget, spent, seconds, provenance=provenance)
        return results


_OWN: tuple[tuple[str, Mode, str, str], ...] = (
    ("vispco", "joint", "table", "steps"),
    ("vispco-paper", "static", "lagrangian", "multi-step"),
    ("vispco-static", "static", "projection", "steps"),
    ("vispco-halving", "static", "halving", "steps"),
    ("vispco-predictor", "predictor", "table", "steps"),
)
for _name, _mode, _solver, _kernel in _OWN:
    SEARCHES.register(partial(VispcoSearch, _name, mode=_mode, solver=_solver, kernel=_kernel), name=_name)
