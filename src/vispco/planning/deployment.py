"""From the directory of a search to what runs: a planner for any budget, or one static schedule."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vispco import cost as costs
from vispco import kernels
from vispco.cost import Cost, Workload
from vispco.errors import InvalidInputError
from vispco.planning import run_files as disk
from vispco.planning.found_shape import FoundShape
from vispco.planning.planner import BudgetPlanner, predicted_shape, static_shape
from vispco.planning.predictor import Predictor
from vispco.schedule import Schedule
from vispco.scorers import Chain


def load(folder: str | Path, budget: float) -> tuple[Chain, BudgetPlanner]:
    """Scorer and planner of what a search found, for a budget: a fraction of each sample's unpruned FLOPs.

    folder: the directory of a search, a saved predictor, or a predictor's name on the hub. A predictor gives each sample
    its own shape; without one, the shape of the nearest budget that was searched is moved to this one.
    """
    _check(budget)
    place = Path(folder)
    if not place.is_dir() or not _is_search(place):
        return _from_predictor(Predictor.from_pretrained(str(folder)), budget)
    if (place / disk.PREDICTOR).is_dir():
        return _from_predictor(Predictor.from_pretrained(place / disk.PREDICTOR), budget)
    config = disk.read_config(place)
    scorer, kernel = Chain.of(config["scorer"]), kernels.get(**config["kernel"])
    found = _nearest(place, budget)
    price = _cost(config)
    sites = scorer.sites(price.num_layers)
    planner = BudgetPlanner(static_shape(found.params), kernel, budget, price, site=sites)
    return scorer, planner


def export(
    folder: str | Path, budget: float, *, num_text: int | None = None, num_visual: int | None = None
) -> Schedule:
    """One static schedule for a budget, the best single shape for all samples, at one size of sample.

    num_text, num_visual: the size; default: the median of the calibration set. For samples of that size it meets the
    budget to the token; at other sizes the same retention costs another fraction (use `load` where that matters).
    """
    _check(budget)
    place = Path(folder)
    config = disk.read_config(place)
    text, visual = config["typical"]
    scorer, kernel = Chain.of(config["scorer"]), kernels.get(**config["kernel"])
    found = _nearest(place, budget)
    moved = FoundShape(budget, found.params, found.kl)
    price = _cost(config)
    sites = scorer.sites(price.num_layers)
    size = Workload(text if num_text is None else num_text, visual if num_visual is None else num_visual, sites)
    return moved.schedule(kernel, size, price)


def _from_predictor(predictor: Predictor, budget: float) -> tuple[Chain, BudgetPlanner]:
    predictor.eval()
    scorer, cost = Chain.of(predictor.config.scorer), predictor.config.make_cost()
    sites = scorer.sites(cost.num_layers)
    return scorer, BudgetPlanner(predicted_shape(predictor, budget), predictor.kernel, budget, cost, site=sites)


def _nearest(folder: Path, budget: float) -> FoundShape:
    found = disk.read_shapes(folder)
    if not found:
        raise InvalidInputError(f"{folder} holds no static shape. Search with mode='static' or 'line', or use load().")
    return min(found, key=lambda each: abs(each.budget - budget))


def _cost(config: dict[str, Any]) -> Cost:
    cost = config["cost"]
    if isinstance(cost, str):  # runs of 0.1.0.dev0
        cost = {"name": cost, "dimensions": config["dimensions"]}
    return costs.from_dict(cost)


def _is_search(folder: Path) -> bool:
    try:
        disk.read_config(folder)
    except InvalidInputError:
        return (folder / disk.SHAPES).exists()
    return True


def _check(budget: float) -> None:
    if not 0.0 < budget <= 1.0:
        raise InvalidInputError(f"budget={budget} was given. It is a fraction of the unpruned FLOPs: above 0, up to 1.")
