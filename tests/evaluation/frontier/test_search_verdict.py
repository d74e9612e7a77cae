"""A search says at which budgets it gained more than noise over a selector that needs none."""

from dataclasses import replace

from vispco.evaluation.frontier import Frontier
from vispco.evaluation.frontier_tables import search_verdict

from .points import point


def compared(budget, accuracy, other, *, noise):
    about = {"selector": "divprune", "accuracy": other, "low": 0.01, "high": 0.05, "within_noise": noise}
    return replace(point(budget, accuracy), provenance={"budget": budget, "without_search": about})


def test_the_simplest_configuration_within_noise_is_named_at_each_budget():
    lines = search_verdict(
        Frontier([compared(0.5, 0.91, 0.9, noise=True), compared(0.2, 0.9, 0.8, noise=False)])
    ).splitlines()
    assert len(lines) == 3
    assert lines[1].startswith("20%: +10.0 points [+1.0, +5.0] over divprune")
    assert lines[1].endswith("what was searched")
    assert "+1.0 points" in lines[2]
    assert lines[2].endswith("divprune alone before the language model")
    assert search_verdict(Frontier([point(0.5, 0.9)])) == ""
