"""What is put on top of a method at a budget: a schedule that was searched for its scorers, or compensation.

`search_on_top`: VisPCO's search finds a schedule for the method's scorers. The method's own one takes part: on the calibration
set both are measured, and the better is what is judged on the test set. A search can still lose there, by what the
calibration set does not tell.

`compensation_on_top`: the method's own schedule, with attention given back to the tokens that are left. How much
(`Chain.compensate`) is chosen on the calibration set by KL, none being one of the choices, and judged on the test set.
"""

from dataclasses import replace
from functools import partial
from typing import Any

from vispco.compare import searches as rivals
from vispco.compare.methods.comparison_setup import ComparisonSetup
from vispco.compare.methods.table import MethodTableRow, TableSettings
from vispco.compare.searches.vispco_search import VispcoSearch
from vispco.core.errors import VispcoError
from vispco.core.schedule import Schedule
from vispco.evaluation.result import Evaluation
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner import presets
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.search.gradient.static import DescentSettings
from vispco.search.search_spec import Effort

_EXPLORE = 16  # shapes that a search looks at first: a quarter of the usual number, since there are many methods
STAYS = "the method's own schedule is better on the calibration set"
_NONE_IS_BETTER = "none is better on the calibration set"


def search_on_top(
    setup: ComparisonSetup, settings: TableSettings, method: str, budget: float, scaled: MethodTableRow | None = None
) -> MethodTableRow:
    """A row of the method with the better of its own schedule and one that is searched.

    scaled: the method's own schedule at this budget as it was measured; if it stays, it is not measured again.
    """
    preset, setting = presets.parse(method)
    chain = preset.chain_for(setup.num_layers, setting)
    row = MethodTableRow(method=method, kind="searched", budget=budget, chain=str(chain))
    test, calibration = setup.evaluator(chain), setup.evaluator(chain, calibration=True)
    try:
        sizes = SampleSizes.of(calibration)
        sizes.check_budget(budget)
        found = _search(setup, settings, chain, rivals.Calibration(calibration, measure="kl"), budget)
        own = preset.at_budget(budget, sizes.cost, sizes.workload, setting)
        better = calibration.kl(found.deploy(sizes)) < calibration.kl(own)
        note = found.method if better else f"{found.method}: {STAYS}"
        if not better and scaled is not None:
            return replace(scaled, kind="searched", note=note)
        tested = SampleSizes.of(test)
        candidate = found.deploy(tested)
        if not better:
            candidate = preset.at_budget(budget, tested.cost, tested.workload, setting)
        return replace(row, note=note, **_measured(setup, settings, chain, candidate, test(candidate)))
    except VispcoError as error:
        return replace(row, note=f"not searched: {error}")


def compensation_on_top(
    setup: ComparisonSetup, settings: TableSettings, method: str, budget: float, scaled: MethodTableRow | None = None
) -> MethodTableRow:
    """A row of the method with the compensation that is best on the calibration set.

    scaled: the method's own schedule at this budget as it was measured; if none is best, it is not measured again.
    """
    preset, setting = presets.parse(method)
    chain = preset.chain_for(setup.num_layers, setting)
    row = MethodTableRow(method=method, kind="compensated", budget=budget, chain=str(chain))
    test, calibration = setup.evaluator(chain), setup.evaluator(chain, calibration=True)
    try:
        sizes, tested = SampleSizes.of(calibration), SampleSizes.of(test)
        own = preset.at_budget(budget, sizes.cost, sizes.workload, setting)
        kl = {beta: calibration.kl(Pruner(chain, own, compensate=beta)) for beta in (0.0, *settings.compensations)}
        beta = min(kl, key=lambda each: kl[each])
        note = f"compensate={beta:g}" if beta else f"compensate=0: {_NONE_IS_BETTER}"
        if not beta and scaled is not None:
            return replace(scaled, kind="compensated", note=note)
        candidate = preset.at_budget(budget, tested.cost, tested.workload, setting)
        given = chain.with_compensation(beta)
        measured = _measured(setup, settings, given, candidate, test(Pruner(given, candidate)))
        return replace(row, chain=str(given), note=note, **measured)
    except VispcoError as error:
        return replace(row, note=f"not compensated: {error}")


def _measured(
    setup: ComparisonSetup, settings: TableSettings, chain: Chain, candidate: Any, found: Evaluation
) -> dict[str, Any]:
    """The fields of a `MethodTableRow` for a candidate of a chain. found: its evaluation on the test set."""
    times = setup.times({"own": partial(pruner_at, chain, candidate)}, settings.rounds)
    return setup.measures(found) | setup.second_turn(chain, candidate) | times.get("own", {})


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
