"""What VisPCO's search adds to a method: its scorers with a schedule that was searched for them.

The method's own schedule at the budget takes part: on the calibration set it is measured beside the one that was found,
and the better of the two is what is judged on the test set. A search can still lose there, by what the calibration set
does not tell.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from vispco.compare import searches as rivals
from vispco.compare.methods.comparison_setup import ComparisonSetup
from vispco.compare.methods.table import MethodTableRow, TableSettings
from vispco.compare.searches.vispco_search import VispcoSearch
from vispco.core.errors import VispcoError
from vispco.core.schedule import Schedule
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner import presets
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.gradient.static import DescentSettings
from vispco.search.search_spec import Effort

_EXPLORE = 16  # shapes that a search looks at first: a quarter of the usual number, since there are many methods

STAYS = "the method's own schedule is better on the calibration set"


def search_on_top(
    setup: ComparisonSetup, settings: TableSettings, method: str, budget: float, scaled: MethodTableRow | None = None
) -> MethodTableRow:
    """A row of the method with the better of its own schedule and one that is searched.

    scaled: the method's own schedule at this budget as it was measured; if it stays, it is not measured again.
    """
    preset, setting = presets.parse(method)
    chain = preset.chain_for(setup.num_layers, setting)
    row = MethodTableRow(method=method, kind="searched", budget=budget, chain=str(chain))
    evaluator, calibration = setup.evaluator(chain), setup.evaluator(chain, calibration=True)
    try:
        sizes = SampleSizes.of(calibration)
        sizes.check_budget(budget)
        found = _search(setup, settings, chain, rivals.Calibration(calibration, measure="kl"), budget)
        own = preset.at_budget(budget, sizes.cost, sizes.workload, setting)
        better = calibration.kl(found.deploy(sizes)) < calibration.kl(own)
        note = found.method if better else f"{found.method}: {STAYS}"
        if not better and scaled is not None:
            return replace(scaled, kind="searched", note=note)
        tested = SampleSizes.of(evaluator)
        candidate = found.deploy(tested)
        if not better:
            candidate = preset.at_budget(budget, tested.cost, tested.workload, setting)
        measured = setup.measures(evaluator(candidate)) | setup.second_turn(chain, candidate)
        times = setup.times({row.kind: partial(pruner_at, chain, candidate)}, settings.rounds)
    except VispcoError as error:
        return replace(row, note=f"not searched: {error}")
    return replace(row, **measured | times.get(row.kind, {}), note=note)


def _search(
    setup: ComparisonSetup, settings: TableSettings, chain: Chain, calibration: rivals.Calibration, budget: float
) -> rivals.RivalResult:
    """What the search of the settings finds for one budget."""
    assert settings.search is not None  # noqa: S101 - asked by the caller
    search = rivals.get(settings.search)
    no_gradient = chain.merges or chain.decides_count
    if no_gradient and isinstance(search, VispcoSearch) and search.solver in ("projection", "lagrangian"):
        search = rivals.get(settings.evaluated_search)
    if not isinstance(search, VispcoSearch):
        found: rivals.RivalResult = search.search(calibration, budget)
        return found
    effort = Effort(descent=DescentSettings(explore=_EXPLORE))
    return search.search(calibration, budget, effort=effort, batches=setup.batches)


def pruner_at(chain: Chain, candidate: Any, place: int) -> Pruner:
    """A pruner for the sample at a place of the test set. candidate: a schedule, of all samples or a row each, or a planner."""
    return Pruner(chain, candidate.of_sample(place) if isinstance(candidate, Schedule) else candidate)
