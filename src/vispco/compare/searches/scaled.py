"""Published methods, each with its published setting scaled to the budget: `scaled:pyramiddrop`, `scaled:sparsevlm:64`.

`scaled` without a method is the choice that a careful user makes: every published method that runs on the model is scaled
to the budget and measured on the calibration set, and the best is taken.

Faithful: the scorers, stages and shares of `vispco.presets`, as the papers set them.

Not faithful: one factor on the shares of the stages meets the budget, and stages move toward the input where the layers
before them cost too much (see `Preset.counts_at_budget`). No paper says how its setting is to be scaled.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from vispco.compare.searches.calibration import Calibration
from vispco.compare.searches.rival import Choice, Rival
from vispco.compare.searches.search_registry import SEARCHES
from vispco.core.errors import BudgetFloorError, VispcoError
from vispco.core.schedule import Schedule
from vispco.pruner import presets
from vispco.pruner.presets import PRESETS, PresetPlanner
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain

_ROUNDING = 1e-9


@SEARCHES.register
@dataclass(frozen=True)
class _Scaled(Rival):
    """One published method at the budget; without `method`, the best of them on the first `samples` calibration samples."""

    name: ClassVar[str] = "scaled"
    least: ClassVar[Mapping[str, float]] = {"samples": 1}

    method: str | None = None
    samples: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.method is not None:
            presets.parse(self.method)  # an unknown one is refused here

    @property
    def label(self) -> str:
        return self.name if self.method is None else f"{self.name}:{self.method}"

    def check_budget(self, calibration: Calibration, budget: float) -> None:
        """Every method has its own floor, which `_search` looks at."""
        calibration.sizes.under(Chain.of("uniform")).check_budget(budget)

    def _search(self, calibration: Calibration, budget: float) -> Choice:
        if self.method is not None:
            _scaled_schedule(self.method, calibration, budget)  # refuses a budget below its floor
            return Choice(provenance={"method": self.method}, planner=_pruner(self.method, calibration, budget))
        scores: dict[str, float] = {}
        left_out: dict[str, str] = {}
        few = calibration.first(self.samples)
        for method in PRESETS:
            try:
                chain, schedule = _scaled_schedule(method, few, budget)
                scores[method] = few.under(chain).score(schedule)
            except VispcoError as error:
                left_out[method] = str(error)
        if not scores:
            raise BudgetFloorError(f"No published method meets the budget {budget:g} on this model. Give a larger one.")
        best = max(scores, key=lambda method: scores[method])
        provenance = {"method": best, "scores": scores, "left_out": left_out}
        return Choice(provenance=provenance, planner=_pruner(best, calibration, budget))


def _scaled_schedule(method: str, calibration: Calibration, budget: float) -> tuple[Chain, Schedule]:
    """The chain of a method and its schedule at the budget, for each calibration sample."""
    preset, setting = presets.parse(method)
    chain = preset.chain_for(calibration.num_layers, setting)
    sizes = calibration.sizes.under(chain)
    schedule = preset.at_budget(budget, sizes.cost, sizes.workload, setting)
    spent = sizes.fraction(schedule)
    if spent > budget + _ROUNDING:
        raise BudgetFloorError(
            f"The method {method!r} comes to {spent:.4g} of the unpruned FLOPs where it keeps least, and the budget is "
            f"{budget:g}. Give a larger one."
        )
    return chain, schedule


def _pruner(method: str, calibration: Calibration, budget: float) -> Pruner:
    preset, setting = presets.parse(method)
    cost = calibration.sizes.cost
    planner = PresetPlanner(preset, cost, setting=setting, budget=budget)
    return Pruner(preset.chain_for(cost.num_layers, setting), planner)
