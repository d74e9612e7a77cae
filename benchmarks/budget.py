"""Is a budget ever exceeded? Every scorer and every preset on the shipped models, counted by torch.

A prefill is counted by FlopCounterMode with attention as plain products. What the unpruned model spends outside of its decoder
layers (vision tower, projector, output head) is subtracted; all that a pruner adds stays in: attention rows, distances,
PageRank, transport, extra projections, rows of the vision tower, merging, the predictor. `over` counts the prefills above their
budget, `charged_exactly` is the share whose bill is what torch counts, to the digit; `largest_undercharge` is by how much of the
unpruned FLOPs a bill was too low at most. A budget under a method's floor is raised to it with a warning, and is compared with
the floor. KV bytes are those of the cache after the prefill.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import torch

import vispco
from figures import Figure, write

# isort: split
import operation_counts as overhead
from vispco import Pruner, cost
from vispco.cost import BudgetWarning, Workload
from vispco.cost.formulas import counted_flops
from vispco.data import dataset
from vispco.evaluation.encoded import Encoded, encode
from vispco.pruner import presets
from vispco.pruner.joint_planner import JointMeasuredPlanner, JointPlanner
from vispco.pruner.presets.planner import pruner as preset_pruner
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.scorers.base import SCORERS
from vispco.timing.prefill import kv_bytes

MODELS = ("tiny-qwen", "tiny-llava", "tiny-gemma")
BUDGETS = (0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 0.9)
MEANS = ("mean:0.3,max:0.4", "mean:0.4,max:0.4", "mean:0.25,max:0.6")
CHAINS = ("divprune", "fastv", "divprune+fastv", "cdpruner+sparsevlm", "divprune+pyramiddrop")
BYTES = (0.3, 0.5, 0.8)  # of the unpruned cache


@torch.no_grad()
def prefill(model: Any, encoded: Encoded, pruner: Pruner | None = None) -> tuple[int, int, int]:
    """FLOPs as torch counts them, the bill of the language model, and bytes of the cache."""
    inputs, price = encoded.inputs, cost.get("exact", model.config)
    with nullcontext() if pruner is None else pruner(model):
        if pruner is not None:
            model(
                **inputs, logits_to_keep=1
            )  # the first prefill of a model under a pruner is checked, which nobody pays
        with counted_flops() as counter:
            out = model(**inputs, logits_to_keep=1, use_cache=True)
        if pruner is None:
            bill = price.full(Workload(encoded.num_text, encoded.num_visual))
        else:
            bill = price.bill(pruner.token_counts(model), pruner.workload(model))
    return int(counter.get_total_flops()), int(bill[0]), kv_bytes(out.past_key_values)


def cases(model: Any) -> Iterator[tuple[str, float, Any]]:
    """(name, the largest share of the FLOPs that is allowed, how to make the pruner)."""
    for budget in BUDGETS:
        for scorer in SCORERS:
            yield scorer, budget, lambda s=scorer, b=budget: PrunerSpec.choose(scorer=s, budget=b).resolve(model)
        for method in presets.PRESETS:
            yield f"preset {method}", budget, lambda m=method, b=budget: preset_pruner(m, model, budget=b)
    predictor = overhead.random_joint_predictor(model, CHAINS)
    for text in (*map(str, BUDGETS), *MEANS):
        budget = cost.Budget.of(text)
        cap = budget.cap if budget.is_mean and budget.cap else budget.amount

        def joint(asked: cost.Budget = budget) -> Pruner:
            planner = JointPlanner(predictor, asked)
            return Pruner(planner.chain, planner)

        yield f"joint {text}", float(cap), joint


def judge(name: str, most: int | None) -> list[dict[str, Any]]:
    model, processor = vispco.load(name)
    samples = dataset("calibration", limit=8, seed=7)
    encoded = [encode(model, processor, [samples[place]]) for place in range(0, len(samples), 3)]
    whole = [prefill(model, each) for each in encoded]
    rows = []
    for number, (method, budget, make) in enumerate(cases(model)):
        if most is not None and number >= most:
            break
        place = number % len(encoded)
        counted, full, _ = whole[place]
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            total, bill, _ = prefill(model, encoded[place], make())
        spent = total - (counted - full)
        floor = any(issubclass(warning.category, BudgetWarning) for warning in said)
        rows.append(
            {
                "model": name,
                "method": method,
                "budget": budget,
                "share": spent / full,
                "charged": bill / full,
                "exact": spent == bill,
                "under_floor": floor,
                "over": spent > (bill if floor else budget * full),
            }
        )
        if rows[-1]["over"]:
            print("over:", rows[-1])
    return rows


def judge_bytes(name: str) -> list[dict[str, Any]]:
    """Bytes of the cache under budgets of bytes."""
    model, processor = vispco.load(name)
    predictor, rows = overhead.random_joint_predictor(model, CHAINS), []
    for sample in dataset("calibration", limit=1, seed=8):
        encoded = encode(model, processor, [sample])
        _, _, full = prefill(model, encoded)
        for share in BYTES:
            planner = JointMeasuredPlanner(predictor, cost.Budget.of(f"{int(share * full)}B"))
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always")
                _, _, held = prefill(model, encoded, Pruner(planner.chain, planner))
            floor = any(issubclass(warning.category, BudgetWarning) for warning in said)
            allowed = planner.budget.amount
            rows.append({"model": name, "allowed": allowed, "bytes": held, "over": held > allowed and not floor})
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--most", type=int, help="cases of each model [all]")
    arguments = parser.parse_args()
    rows = [row for name in MODELS for row in judge(name, arguments.most)]
    held = [row for name in MODELS for row in judge_bytes(name)]
    above = [row for row in rows if not row["under_floor"]]
    figures = {
        "prefills": Figure(len(rows), "higher", 400, "prefills"),
        "over": Figure(sum(row["over"] for row in rows), "lower", 0, "prefills"),
        "largest_share": Figure(max(row["share"] / row["budget"] for row in above), "lower", 1.0, "of the budget"),
        "charged_exactly": Figure(sum(row["exact"] for row in rows) / len(rows), "higher", None, "share"),
        "largest_undercharge": Figure(max(row["share"] - row["charged"] for row in rows), "lower", None, "share"),
        "largest_overcharge": Figure(max(row["charged"] - row["share"] for row in rows), "lower", None, "share"),
        "under_floor": Figure(len(rows) - len(above), "lower", None, "prefills"),
        "kv_bytes_over": Figure(sum(row["over"] for row in held), "lower", 0, "prefills"),
    }
    inexact = sorted({(row["model"], row["method"]) for row in rows if not row["exact"]})
    write("budget", figures, {"charged_otherwise": inexact, "prefills": rows, "kv_bytes": held}, seed=7)


if __name__ == "__main__":
    main()
