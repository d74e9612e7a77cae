"""`on_top`: a method at a budget with one thing added: a searched schedule for its scorers, or compensation.

"searched": VisPCO's search finds a schedule for the method's scorers. "compensated": the method's own schedule, with
attention given back to the tokens that are left (`Chain.compensate`). The method as it is takes part: all are measured
by KL on the calibration set, and the best is what is judged on the test set. It can still lose there, by what the
calibration set does not tell.
"""

from dataclasses import replace
from functools import partial
from typing import Any, Literal

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
_NONE_IS_BETTER = "none is better on the calibration set"


def on_top(
    setup: ComparisonSetup,
    settings: TableSettings,
    method: str,
    kind: Literal["searched", "compensated"],
    budget: float,
    scaled: MethodTableRow | None = None,
) -> MethodTableRow:
    """A row of the method with the best on the calibration set of its own schedule and what is put on top of it.

    scaled: the method's own schedule at this budget as it was measured; if it stays, it is not measured again.
    """
    preset, setting = presets.parse(method)
    chain = preset.chain_for(setup.num_layers, setting)
    row = MethodTableRow(method=method, kind=kind, budget=budget, chain=str(chain))
    test, calibration = setup.evaluator(chain), setup.evaluator(chain, calibration=True)
    try:
        sizes, tested = SampleSizes.of(calibration), SampleSizes.of(test)
        if kind == "searched":
            sizes.check_budget(budget)
            found = _search(setup, settings, chain, rivals.Calibration(calibration, measure="kl"), budget)
        own, candidate = (preset.at_budget(budget, each.cost, each.workload, setting) for each in (sizes, tested))
        if kind == "searched":
            stays = not calibration.kl(found.deploy(sizes)) < calibration.kl(own)
            note = f"{found.method}: {STAYS}" if stays else found.method
            candidate = candidate if stays else found.deploy(tested)
            judged = candidate
        else:
            kl = {beta: calibration.kl(Pruner(chain, own, compensate=beta)) for beta in (0.0, *settings.compensations)}
            beta = min(kl, key=lambda each: kl[each])
            stays = not beta
            note = f"compensate={beta:g}" if beta else f"compensate=0: {_NONE_IS_BETTER}"
            chain = chain.with_compensation(beta)
            judged = Pruner(chain, candidate)
        if stays and scaled is not None:
            return replace(scaled, kind=kind, note=note)
        evaluation = test(judged)
        times = setup.times({"own": partial(pruner_at, chain, candidate)}, settings.rounds)
        measured = setup.measures(evaluation) | setup.second_turn(chain, candidate) | times.get("own", {})
        return replace(row, chain=str(chain), note=note, **measured)
    except VispcoError as error:
        return replace(row, note=f"not {kind}: {error}")


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
