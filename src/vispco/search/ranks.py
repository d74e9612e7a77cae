"""Many processes that search together (torchrun, accelerate launch): each measures its part, and all know the results.

Every rank holds the whole model and goes through the same search. Only what runs the pruned model is shared: after each
round the measured KL is gathered, so that all ranks choose alike. The first rank alone writes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch

from vispco.search.objective import Objective

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")
Progress = Callable[[float, str], None]
"""(passes over a batch since the last call, in units of the unpruned pass; a text that says what was done)."""


def rank_and_size() -> tuple[int, int]:
    """This process's number among all that search together, and how many there are."""
    if int(os.environ.get("WORLD_SIZE", "1")) < 2:
        return 0, 1
    from accelerate import PartialState  # noqa: PLC0415

    # Without a GPU, accelerate joins the processes of torchrun only where it knows that they run on the CPU. What is
    # made first holds for everything of accelerate that is made later.
    state = PartialState(cpu=not torch.cuda.is_available())
    return int(state.process_index), int(state.num_processes)


def gather(own: _Item) -> list[_Item]:
    """What each rank gives, in the order of the ranks, on every rank."""
    _, size = rank_and_size()
    if size == 1:
        return [own]
    found: list[Any] = [None] * size
    torch.distributed.all_gather_object(found, own)
    return found


def _parts_by_weight(weights: Sequence[float], size: int) -> list[list[int]]:
    """Places of the work of each rank, in order: the heaviest first, each to the rank that has the least so far."""
    parts: list[list[int]] = [[] for _ in range(size)]
    loads = [0.0] * size
    for place in sorted(range(len(weights)), key=lambda place: -weights[place]):
        rank = loads.index(min(loads))
        parts[rank].append(place)
        loads[rank] += weights[place]
    return [sorted(part) for part in parts]


def shared_over_ranks(
    items: Sequence[_Item],
    work: Callable[[_Item], _Result],
    objective: Objective,
    weights: Sequence[float] | None = None,
) -> list[_Result]:
    """What `work` gives for each item: every rank does its part and gets all of it, with what the journals noted.

    weights: what each item takes, in any unit, so that the ranks end together (default: all the same).
    """
    rank, size = rank_and_size()
    if size == 1:
        return [work(item) for item in items]
    parts = _parts_by_weight(weights if weights is not None else [1.0] * len(items), size)
    own = [work(items[place]) for place in parts[rank]]
    journal = objective.journal
    found = gather((own, {} if journal is None else journal.take_new()))
    results: dict[int, _Result] = {}
    for other, (measured, entries) in enumerate(found):
        results.update(zip(parts[other], measured, strict=True))
        if journal is not None and other != rank:
            journal.enter(entries)
    return [results[place] for place in range(len(items))]


def sum_of_bills(objective: Objective) -> None:
    """Put what the other ranks have measured on this rank's bill. A batch's teacher is counted once, whoever ran it."""
    rank, size = rank_and_size()
    if size == 1:
        return
    for other, (bill, taught) in enumerate(gather((objective.spent.to_dict(), objective.taught))):
        if other != rank:
            objective.spent.measured += bill["measured"]
            objective.spent.shared += bill["shared"]
            for name in taught.keys() - objective.taught.keys():
                objective.taught[name] = taught[name]
                objective.spent.teacher += taught[name]
