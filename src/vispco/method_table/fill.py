"""Fills a `MethodTable`, method by method; what an earlier run has measured is not measured again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from vispco import presets, rivals
from vispco.bench import BenchCandidate
from vispco.errors import InvalidInputError, VispcoError
from vispco.evaluation.sample_sizes import SampleSizes
from vispco.method_table.ground import Ground
from vispco.method_table.table import MethodTable, MethodTableRow, TableSettings
from vispco.schedule import Schedule
from vispco.scorers import Chain
from vispco.sweep import spaces
from vispco.sweep.cost_range import CostRange

WIDTH = 0.05  # draws cost at most so much less than the budget before they are lifted to it
OnRows = Callable[[MethodTable], None]
"""Told the table so far after each method, and after each search."""


def fill_table(
    ground: Ground,
    settings: TableSettings,
    table: MethodTable | None = None,
    *,
    on_method: Callable[[str], None] = lambda _: None,
    on_rows: OnRows = lambda _: None,
) -> MethodTable:
    """Measure every method of the settings. A method that cannot run on this model gets a row with a note."""
    table = table or MethodTable()
    if table.row("unpruned", "unpruned") is None:
        on_method("unpruned")
        table = table.with_rows((ground.unpruned_row(),))
        on_rows(table)
    for method in settings.methods:
        on_method(method)
        if table.row(method, "published") is None:
            table = table.with_rows(_measured(ground, settings, method))
            on_rows(table)
        first = table.row(method, "published")
        if settings.search is None or first is None or first.accuracy is None:
            continue
        for budget in settings.search_budgets:
            if table.row(method, "searched", budget) is None:
                on_method(f"{method}, search at {budget:.0%}")
                table = table.with_rows((_searched(ground, settings, method, budget),))
                on_rows(table)
    return table


def _measured(ground: Ground, settings: TableSettings, method: str) -> tuple[MethodTableRow, ...]:
    """As published, scaled to each budget, and with schedules drawn for each budget, in one pass over the test set."""
    try:
        chain, evaluator = _chain(ground, method)
        sizes = SampleSizes.of(evaluator)
        asked = _candidates(settings, method, sizes)
        found = evaluator.many([candidate for _, _, candidate in asked])
    except VispcoError as error:
        return (MethodTableRow(method=method, kind="published", note=f"not run: {error}"),)
    times = _times(ground, settings, method, evaluator)
    text, rows = str(chain), []
    groups = dict.fromkeys((kind, budget) for kind, budget, _ in asked)
    for kind, budget in groups:
        mine = [each for (k, b, _), each in zip(asked, found, strict=True) if (k, b) == (kind, budget)]
        measured: dict[str, Any] = ground.sampled(mine) if kind == "sampled" else ground.measures(mine[0])
        measured |= times.get(_timed_name(kind, budget), {})
        row = MethodTableRow(method=method, kind=kind, budget=budget, chain=text, **measured)
        rows.append(_noted(row))
    return tuple(rows)


def _times(ground: Ground, settings: TableSettings, method: str, evaluator: Any) -> dict[str, dict[str, float]]:
    """Of the method as published and at each budget, interleaved."""
    if not settings.rounds:
        return {}
    cost = evaluator.costs["exact"].to_dict()
    named = {_timed_name("published", None): None, **{_timed_name("scaled", b): b for b in settings.budgets}}
    candidates = [BenchCandidate(name=name, method=method, budget=b, cost=cost) for name, b in named.items()]
    return ground.times(candidates, settings.rounds)


def _timed_name(kind: str, budget: float | None) -> str:
    return f"{kind} {budget}"


def _candidates(settings: TableSettings, method: str, sizes: SampleSizes) -> list[tuple[Any, float | None, Schedule]]:
    """(kind, budget, schedule) of all that is measured without a search."""
    preset, setting = presets.parse(method)
    found: list[tuple[Any, float | None, Schedule]] = [
        ("published", None, preset.schedule(sizes.num_layers, sizes.num_visual.tolist(), setting))
    ]
    for budget in settings.budgets:
        found.append(("scaled", budget, preset.at_budget(budget, sizes.cost, sizes.workload, setting)))
        found += [("sampled", budget, schedule) for schedule in _drawn(settings, sizes, budget)]
    return found


def _drawn(settings: TableSettings, sizes: SampleSizes, budget: float) -> list[Schedule]:
    """Random non-increasing schedules that meet a budget; none where it lies under the floor."""
    space = spaces.get("free", sizes.num_layers, sizes.earliest_layer)
    try:
        inside = CostRange(space, max(0.0, budget - WIDTH), budget, sizes.fraction)
    except InvalidInputError:
        return []
    draws = [inside.draw(np.random.default_rng((settings.seed, number))) for number in range(settings.draws)]
    return [sizes.fit(space.schedule(params), budget) for params in draws]


def _searched(ground: Ground, settings: TableSettings, method: str, budget: float) -> MethodTableRow:
    """The method's scorers with the schedule that a search finds for them."""
    chain, evaluator = _chain(ground, method)
    by_evaluation = chain.merges or chain.decides_count
    name = settings.evaluated_search if by_evaluation else settings.search
    assert name is not None  # noqa: S101 - asked by the caller
    blank = MethodTableRow(method=method, kind="searched", budget=budget, chain=str(chain))
    try:
        calibration = rivals.Calibration(ground.evaluator(chain, calibration=True), measure="kl")
        calibration.sizes.check_budget(budget)
        candidate = rivals.get(name).search(calibration, budget)
        found = evaluator(candidate.deploy(SampleSizes.of(evaluator)))
    except VispcoError as error:
        return MethodTableRow(**{**vars(blank), "note": f"not searched: {error}"})
    return _noted(MethodTableRow(**{**vars(blank), **ground.measures(found), "note": name}))


def _chain(ground: Ground, method: str) -> tuple[Chain, Any]:
    preset, setting = presets.parse(method)
    evaluator = ground.evaluator(Chain.of("random"))
    chain = preset.chain_for(evaluator.num_layers, setting)
    return chain, ground.evaluator(chain)


def _noted(row: MethodTableRow) -> MethodTableRow:
    """A budget that lies under what cannot be pruned is said so."""
    if row.budget is None or row.fraction is None or row.fraction <= row.budget + 1e-9:
        return row
    return MethodTableRow(**{**vars(row), "note": "the budget lies under this method's floor"})


def chosen_methods(names: Sequence[str] | None) -> tuple[str, ...]:
    """Methods as a person names them; all of them without a name. An unknown one is refused."""
    wanted = list(presets.PRESETS) if names is None else list(names)
    for name in wanted:
        presets.parse(name)
    return tuple(dict.fromkeys(wanted))
