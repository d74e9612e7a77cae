"""What does pruning add, counted in torch operations and in waits for the device? The same figures on every machine.

A batch of 8 prompts with pictures of different sizes, on the shipped models. `ops.drop.*` is one drop beyond a pruner that
drops nothing; `ops.applied` is such a pruner beyond the unpruned model; `ops.decode.*` is a decoding step beyond an
unpruned one's. `ops.plan_joint` is the plan of a joint search's predictor, whose samples follow several chains;
`ops.pick.*` is what one pick of a greedy choice adds on a device that is not the host, where numpy makes the picks;
`ops.select.*` is a whole choice there, of 400 among 1,296 tokens.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch

import vispco
from figures import Figure, write

# isort: split
import operation_counts as overhead
from vispco import Pruner, Schedule
from vispco.core.small_arrays import all_on_devices
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.families import family_of
from vispco.pruner.joint_planner import JointPlanner

DROP = {"fastv": 60, "sparsevlm": 90, "fitprune": 110, "v2drop": 60}
BEFORE = {"divprune": 90, "cdpruner": 120}  # one choice before the language model
CHAINS = ("divprune", "fastv", "divprune+fastv", "cdpruner+sparsevlm")  # of the kinds that a joint search chooses
PICK = {"divprune": 5, "cdpruner": 30}
SELECT = {"divprune": 250, "cdpruner": 250, "scope": None}
SELECT_OF, SELECTED = 1296, 400
BATCH, BUDGET = 8, 0.5


def prompts(name: str, number: int) -> tuple[Any, dict[str, Any], int]:
    model, processor = vispco.load(name)
    return (
        model,
        encode(model, processor, dataset("test", limit=1)[:number]).inputs,
        len(family_of(model).layers(model)),
    )


def picked(model: Any, inputs: dict[str, Any], scorer: str, layers: int) -> float:
    """Operations of one pick, where the picks are made by torch: the difference of two numbers of picks."""
    with all_on_devices():
        few, many = (
            overhead.prefill(model, inputs, Pruner(scorer, Schedule.single(0, keep, layers))) for keep in (0.25, 0.75)
        )
    most = max(family_of(model).layout(model, inputs).num_visual)
    return (many.number - few.number) / (most // 2)


def main() -> None:
    model, inputs, layers = prompts("tiny-qwen", BATCH)
    unpruned = overhead.prefill(model, inputs)
    applied = overhead.prefill(model, inputs, Pruner("fastv", Schedule.full(layers)))
    planner = partial(JointPlanner, overhead.random_joint_predictor(model, ("fastv",), anchors=12), BUDGET)
    first, again = overhead.planning(model, inputs, planner)
    with all_on_devices():
        whole = overhead.prefill(model, inputs, Pruner("fastv", planner()))
    waits = (whole.waits - unpruned.waits).total()
    figures = {
        "ops.plan": Figure(first.number, "lower", 120, "operations"),
        "ops.plan_cached": Figure(again.number, "lower", 40, "operations"),
        "ops.applied": Figure(applied.number - unpruned.number, "lower", 15, "operations"),
    }
    details: dict[str, Any] = {"batch": BATCH, "unpruned_prefill": unpruned.number, "drops": {}}
    for scorer, bar in DROP.items():
        once = overhead.prefill(model, inputs, Pruner(scorer, Schedule.single(2, 0.5, layers)))
        twice = overhead.prefill(model, inputs, Pruner(scorer, Schedule.stages({2: 0.5, 5: 0.25}, layers)))
        figures[f"ops.drop.{scorer}"] = Figure(once.number - applied.number, "lower", bar, "operations")
        details["drops"][scorer] = {"first": once.number - applied.number, "second": twice.number - once.number}
    for scorer, bar in BEFORE.items():
        half = overhead.prefill(model, inputs, Pruner(scorer, Schedule.single(0, 0.5, layers)))
        figures[f"ops.drop.{scorer}"] = Figure(half.number - applied.number, "lower", bar, "operations")
        figures[f"ops.pick.{scorer}"] = Figure(
            picked(model, inputs, scorer, layers), "lower", PICK[scorer], "operations"
        )
    for scorer, most in SELECT.items():
        found = overhead.selecting(scorer, SELECT_OF, SELECTED)
        figures[f"ops.select.{scorer}"] = Figure(found.number, "lower", most, "operations")
        waits = max(waits, found.syncs)
    for key, budget in (("plan_joint", BUDGET), ("plan_joint_mean", "mean:0.4,max:0.7")):
        made = partial(JointPlanner, overhead.random_joint_predictor(model, CHAINS), budget)
        first, again = overhead.planning(model, inputs, made)
        figures[f"ops.{key}"] = Figure(first.number, "lower", 120, "operations")
        figures[f"ops.{key}_cached"] = Figure(again.number, "lower", 40, "operations")
        with all_on_devices():
            joint = made()
            prefill = overhead.prefill(model, inputs, Pruner(joint.chain, joint))
        details[f"prefill.{key}"] = {"operations": prefill.number - unpruned.number, "chains": list(CHAINS)}
        waits = max(waits, (prefill.waits - unpruned.waits).total())
    llava, padded, depth = prompts("tiny-llava", BATCH)
    single = prompts("tiny-llava", 1)[1]
    pruner = Pruner("fastv", Schedule.single(2, 0.5, depth))
    syncs = 0
    for key, batch, bar in (("unpadded", single, 0), ("padded", padded, 12)):
        plain, pruned = overhead.decoding(llava, batch), overhead.decoding(llava, batch, pruner)
        figures[f"ops.decode.{key}"] = Figure(pruned.number - plain.number, "lower", bar, "operations")
        details[f"unpruned_decode.{key}"] = plain.number
        syncs += (pruned.waits - plain.waits).total()
    figures["syncs.prefill"] = Figure(waits, "lower", 2, "waits")
    figures["syncs.decode"] = Figure(syncs, "lower", 0, "waits")
    write("overhead", figures, details, 0)


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
