"""One registry has every search, open to other packages, and a seed reaches each search that draws at random."""

from dataclasses import dataclass
from typing import ClassVar

import pytest

from compare.searches.synthetic_search import LAYERS, SyntheticEvaluator
from vispco.compare.searches import SEARCHES, Choice, Rival, compare, get, get_searches, search_names, search_registry
from vispco.core.errors import InvalidInputError
from vispco.core.registry import Registry
from vispco.core.schedule import Schedule


@dataclass(frozen=True)
class Half(Rival):
    """A search of another package."""

    name: ClassVar[str] = "half"

    def _search(self, calibration, budget):
        return Choice(Schedule.single(1, 0.5, calibration.num_layers))


class EntryPoint:
    name, value = "half", "elsewhere:Half"

    def load(self):
        return Half


def test_rivals_and_own_searches_are_in_one_registry():
    assert {"vtw", "fitprune", "random", "vispco-paper", "vispco-static", "vispco-predictor"} <= set(SEARCHES)
    assert "random-N" in search_names()
    assert {search.label for search in get_searches()} >= {"vtw", "random-40", "vispco-static"}


def test_an_entry_point_adds_a_search(monkeypatch):
    monkeypatch.setattr(
        "vispco.core.registry.entry_points", lambda group: [EntryPoint()] * (group == "vispco.searches")
    )
    searches = Registry("search", "vispco.searches")
    monkeypatch.setattr(search_registry, "SEARCHES", searches)
    assert search_names() == ["half"]
    found = compare(SyntheticEvaluator(), SyntheticEvaluator(), 0.6, ["half"])
    assert found.rows[1].schedule == Schedule.single(1, 0.5, LAYERS)


def test_a_seed_reaches_every_search_that_draws_at_random():
    searches = {
        search.label: search for search in get_searches(["vtw", "random-3", "p-sigmoid-bo", "vispco-static"], seed=7)
    }
    assert [searches[name].seed for name in ("random-3", "p-sigmoid-bo", "vispco-static")] == [7, 7, 7]
    assert "seed" not in searches["vtw"].settings()
    assert "seed" not in get("vispco-static").settings(), "rows of earlier versions have no seed"
    with pytest.raises(InvalidInputError, match="It takes: mode, solver, kernel, seed"):
        get("vispco-static", colour="red")
