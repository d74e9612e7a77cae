"""Fills a `MethodTable`, method by method; what an earlier run has measured is not measured again."""

import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from vispco.compare.methods.comparison_setup import ComparisonSetup
from vispco.compare.methods.on_top import on_top, pruner_at
from vispco.compare.methods.table import Kind, MethodTable, MethodTableRow, TableSettings
from vispco.core.errors import InvalidInputError, VispcoError
from vispco.core.schedule import Schedule
from vispco.cost import BudgetWarning
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.pruner import presets
from vispco.pruner.pruner import Pruner
from vispco.scorers import Chain
from vispco.sweep import spaces
from vispco.sweep.spaces import CostRange

_WIDTH = 0.05  # of the costs of draws below the budget, before they are lifted to it
_NO_PAPER = "no paper sets it: half of the tokens stay at each scorer's first layer"


def fill_table(
    setup: ComparisonSetup,
    settings: TableSettings,
    table: MethodTable | None = None,
    *,
    on_method: Callable[[str], None] = lambda _: None,
    on_rows: Callable[[MethodTable], None] = lambda _: None,
) -> MethodTable:
    """Measure every method of the settings. A method that cannot run on this model gets a row with a note.

    on_method: called with what is measured next; on_rows: with the table so far, after each method and each search.
    details["seconds"] of the table: what it took, all runs of it together.
    """
    filled, began = table or MethodTable(), time.perf_counter()

    def add(*rows: MethodTableRow) -> None:
        nonlocal filled, began
        now = time.perf_counter()
        details = {**filled.details, "seconds": filled.seconds + now - began}
        filled, began = MethodTable((*filled.rows, *rows), details), now
        on_rows(filled)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BudgetWarning)  # noted in the row
        for method in settings.methods:
            with suppress(VispcoError):  # its row will say why
                setup.expect(_chain(setup, method))
        if filled.row("unpruned", "unpruned") is None:
            on_method("unpruned")
            measured = setup.measures(setup.unpruned) | setup.second_turn(Chain.of("random"), None)
            add(MethodTableRow(method="unpruned", kind="unpruned", **measured))
        for method in settings.methods:
            on_method(method)
            if filled.row(method, "published") is None:
                add(*_measured(setup, settings, method))
            first = filled.row(method, "published")
            if first is None or first.accuracy is None:
                continue
            tops: dict[Literal["compensated", "searched"], str] = {}
            tops |= {"compensated": "compensation"} if settings.compensations else {}
            tops |= {"searched": "search"} if settings.search is not None else {}
            for kind, what in tops.items():
                for budget in settings.search_budgets:
                    if filled.row(method, kind, budget) is None:
                        on_method(f"{method}, {what} at {budget:.0%}")
                        own = filled.row(method, "scaled", budget)
                        add(_noted(on_top(setup, settings, method, kind, budget, own)))
    return filled


def _measured(setup: ComparisonSetup, settings: TableSettings, method: str) -> tuple[MethodTableRow, ...]:
    """As published, scaled to each budget, and with schedules drawn for each budget, in one pass over the test set.

    Times are of the method's planner, and of the first draw of each budget.
    """
    makers: dict[str, Callable[[int], Pruner]] = {}
    try:
        preset, setting = presets.parse(method)
        chain = _chain(setup, method)
        evaluator = setup.evaluator(chain)
        sizes = SampleSizes.of(evaluator)
        published = preset.schedule(sizes.num_layers, sizes.num_visual.tolist(), setting)
        asked: list[tuple[Kind, float | None, Schedule]] = [("published", None, published)]
        for budget in settings.budgets:
            asked.append(("scaled", budget, preset.at_budget(budget, sizes.cost, sizes.workload, setting)))
            asked += [("sampled", budget, schedule) for schedule in _drawn(settings, sizes, budget)]
        found = evaluator.many([candidate for _, _, candidate in asked])
        for kind, at, schedule in asked:
            if kind == "sampled":
                makers.setdefault(f"{kind} {at}", partial(pruner_at, chain, schedule))
            else:
                own = presets.pruner(method, setup.model, budget=at)
                makers[f"{kind} {at}"] = lambda _, own=own: own  # type: ignore[misc]
        times = setup.times(makers, settings.rounds)
        second = {each[:2]: setup.second_turn(chain, each[2]) for each in asked if each[0] != "sampled"}
    except VispcoError as error:
        return (MethodTableRow(method=method, kind="published", note=f"not run: {error}"),)
    rows = []
    for kind, at in dict.fromkeys(each[:2] for each in asked):
        mine = [each for each, (k, b, _) in zip(found, asked, strict=True) if (k, b) == (kind, at)]
        measured: dict[str, Any] = setup.sampled(mine) if kind == "sampled" else setup.measures(mine[0])
        measured |= times.get(f"{kind} {at}", {}) | second.get((kind, at), {})
        note = _NO_PAPER if kind == "published" and preset.paper == "none" else ""
        row = MethodTableRow(method=method, kind=kind, budget=at, chain=str(chain), note=note, **measured)
        rows.append(_noted(row))
    return tuple(rows)


def _drawn(settings: TableSettings, sizes: SampleSizes, budget: float) -> list[Schedule]:
    """Random non-increasing schedules that meet a budget; none where it lies under the floor."""
    space = spaces.get("free", sizes.num_layers, sizes.earliest_layer)
    try:
        inside = CostRange(space, max(0.0, budget - _WIDTH), budget, sizes.fraction)
    except InvalidInputError:
        return []
    draws = [inside.draw(np.random.default_rng((settings.seed, number))) for number in range(settings.draws)]
    return [sizes.fit(space.schedule(params), budget) for params in draws]


def _chain(setup: ComparisonSetup, method: str) -> Chain:
    preset, setting = presets.parse(method)
    return preset.chain_for(setup.num_layers, setting)


def _noted(row: MethodTableRow) -> MethodTableRow:
    """A budget that lies under what cannot be pruned is said so."""
    if row.budget is None or row.fraction is None or row.fraction <= row.budget + 1e-9:
        return row
    return replace(row, note="; ".join(filter(None, (row.note, "the budget lies under this method's floor"))))


def chosen_methods(names: Sequence[str] | None) -> tuple[str, ...]:
    """Methods as a person names them; all of them without a name. An unknown one is refused."""
    wanted = list(presets.PRESETS) if names is None else list(names)
    for name in wanted:
        presets.parse(name)
    return tuple(dict.fromkeys(wanted))
