"""From a saved pruner or the folder of a search to what runs: a chain and a planner for a budget, or one schedule."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from vispco import files
from vispco.cost import Budget, BudgetLike
from vispco.engine.plan import Planner
from vispco.errors import InvalidInputError
from vispco.planning.found_shape import FoundShape
from vispco.planning.planner_kinds import PLANNERS, PREDICTOR, cost_of, load_predictor, nearest_shape
from vispco.planning.pruner_config import NAME, PrunerConfig
from vispco.planning.pruner_source import PrunerSource, read_source
from vispco.scorers import Chain, with_options
from vispco.scorers.cost import workload_under
from vispco.weights import hide_weight_bars


def load(source: str | Path | PrunerSource, budget: BudgetLike | None = None) -> tuple[Chain, Planner]:
    """Chain and planner of a saved pruner or of what a search found, for a budget.

    source: a saved pruner, the folder of a search, a saved predictor, or one of them on the hub.
    budget: as `Budget.of` reads it, such as 0.5; default: the one that the pruner was saved with. A predictor gives
        each sample its own shape; without one, the shape of the nearest budget that was searched is moved to this one.
    """
    if budget is not None:
        Budget.of(budget)  # a wrong one is refused before anything is read
    found = read(source)
    config = at_budget(found.config, budget)
    build = PLANNERS.get(config.kind)
    chain, planner = build(config, None if config.budget is None else Budget.of(config.budget), found.folder)
    return with_options(chain, config.allocation, config.compensate), planner


def read(source: str | Path | PrunerSource) -> PrunerSource:
    """The config behind a source, and the folder of its files."""
    return source if isinstance(source, PrunerSource) else read_source(source)


def at_budget(config: PrunerConfig, budget: BudgetLike | None) -> PrunerConfig:
    """The config for a budget: the given one, or its own."""
    if budget is not None:
        Budget.of(budget)  # a wrong one is refused here
    if config.fixed:
        own = config.budget
        if budget is not None and (own is None or Budget.of(own) != Budget.of(budget)):
            made = "" if own is None else f", made for the budget {own}"
            raise InvalidInputError(
                f"The budget {budget} was given, but this pruner is one schedule{made}. Give no budget, or export another "
                "schedule from its run."
            )
        return config
    if budget is None and config.budget is None:
        raise InvalidInputError("This pruner works at any budget, and none was given. Give budget=0.5 (--budget 0.5).")
    return config if budget is None else replace(config, budget=_as_written(budget))


def export(
    source: str | Path, budget: float | str, *, num_text: int | None = None, num_visual: int | None = None
) -> PrunerConfig:
    """A pruner of one static schedule for a budget: the best single shape for all samples, at one size of sample.

    num_text, num_visual: the size; default: the median of the calibration set. For samples of that size it meets the
    budget to the token; at other sizes the same retention costs another fraction (use `load` where that matters).
    """
    value, config = Budget.of(budget).fraction, read(source).config
    typical = config.planner.get("typical") or (None, None)
    text, visual = (own if given is None else given for own, given in zip(typical, (num_text, num_visual), strict=True))
    if text is None or visual is None:
        raise InvalidInputError(
            f"{source} does not say how large its samples were. Give num_text and num_visual, or the folder of a search."
        )
    chain, kernel, shape = nearest_shape(config, value)
    cost = cost_of(config)
    size = workload_under(chain, cost.dimensions, text, visual)
    schedule = FoundShape(value, shape.params, shape.kl).schedule(kernel, size, cost)
    return replace(config, chain=chain, planner={"kind": "schedule", "schedule": schedule.to_dict()}, budget=budget)


def save(source: PrunerSource, folder: str | Path) -> Path:
    """Write a pruner into a folder: its predictor, if it has one, and then the config that says that it is complete."""
    place = Path(folder)
    config = source.config
    if config.kind in ("predictor", "joint"):
        predictor = load_predictor(config, source.folder)
        with hide_weight_bars():
            predictor.save_pretrained(place / PREDICTOR)
        written = [file.name for file in (place / PREDICTOR).iterdir() if file.suffix in (".json", ".safetensors")]
        sums = files.digest_files(place / PREDICTOR, sorted(written))
        planner: dict[str, Any] = {**config.planner, "folder": PREDICTOR, "checksums": sums}
        config = replace(config, planner=planner)
    return config.save(place / NAME)


def _as_written(budget: BudgetLike) -> float | str:
    """A budget as a config keeps it."""
    return str(budget) if isinstance(budget, Budget) else budget
