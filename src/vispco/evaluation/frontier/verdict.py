"""One sentence on what a search found: what the unpruned model reaches, and how little comes near it."""

from __future__ import annotations

from vispco.evaluation.frontier.frontier import Frontier

WITHIN = 0.02  # of accuracy: a loss that the verdict calls small


def verdict(frontier: Frontier, unpruned: float, cost: str) -> str:
    """The unpruned accuracy on the same items, and the cheapest schedule that stays within two points of it."""
    start = f"The unpruned model reaches {unpruned:.1%} on the same items."
    near = [point for point in frontier.points if point.accuracy >= unpruned - WITHIN]
    if not near:
        return f"{start} No searched budget stays within {WITHIN:.0%} of it."
    best = min(near, key=lambda point: point.cost[cost]["fraction"])
    fraction = best.cost[cost]["fraction"]
    return f"{start} With {fraction:.0%} of the FLOPs ({cost}) the pruned model reaches {best.accuracy:.1%}."
