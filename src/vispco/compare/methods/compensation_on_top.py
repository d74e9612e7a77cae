"""What compensation adds to a method: its own schedule at a budget, with attention given back to the tokens that are left.

How much is given back (`Chain.compensate`) is chosen on the calibration set by KL, none being one of the choices, and judged on
the test set.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from vispco.compare.methods.comparison_setup import ComparisonSetup
from vispco.compare.methods.search_on_top import pruner_at
from vispco.compare.methods.table import MethodTableRow, TableSettings
from vispco.core.errors import VispcoError
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner import presets
from vispco.pruner.pruner import Pruner

NONE_IS_BETTER = "none is better on the calibration set"


def compensation_on_top(
    setup: ComparisonSetup, settings: TableSettings, method: str, budget: float, scaled: MethodTableRow | None = None
) -> MethodTableRow:
    """A row of the method with the compensation that is best on the calibration set.

    scaled: the method's own schedule at this budget as it was measured; if none is best, it is not measured again.
    """
    preset, setting = presets.parse(method)
    chain = preset.chain_for(setup.num_layers, setting)
    row = MethodTableRow(method=method, kind="compensated", budget=budget, chain=str(chain))
    evaluator, calibration = setup.evaluator(chain), setup.evaluator(chain, calibration=True)
    try:
        sizes, tested = SampleSizes.of(calibration), SampleSizes.of(evaluator)
        own = preset.at_budget(budget, sizes.cost, sizes.workload, setting)
        kl = {beta: calibration.kl(Pruner(chain, own, compensate=beta)) for beta in (0.0, *settings.compensations)}
        beta = min(kl, key=lambda each: kl[each])
        note = f"compensate={beta:g}" if beta else f"compensate=0: {NONE_IS_BETTER}"
        if not beta and scaled is not None:
            return replace(scaled, kind="compensated", note=note)
        given = chain.with_compensation(beta)
        candidate = preset.at_budget(budget, tested.cost, tested.workload, setting)
        pruned = Pruner(given, candidate)
        measured = setup.measures(evaluator(pruned)) | setup.second_turn(given, pruned)
        times = setup.times({row.kind: partial(pruner_at, given, candidate)}, settings.rounds)
    except VispcoError as error:
        return replace(row, note=f"not compensated: {error}")
    return replace(row, chain=str(given), **measured | times.get(row.kind, {}), note=note)
