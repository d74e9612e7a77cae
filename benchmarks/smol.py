"""A pre-trained language model that sees: `smol`, its laws, its grid, the searches and their rivals, and its time.

    python benchmarks/smol.py [--only sight,laws,speed] [--calibration 8] [--test 16] [--cache runs/bench-smol]

`sight` is judged on items of a seed of their own, `laws` walks the laws with the real weights, `speed` compares the time to
the first token with what FLOPs imply. The rest are searches with FastV's scores: the single-layer grid on a calibration
set, Algorithm 1 with multi-step curves, the joint search, and three rivals at the bill of the table predictor.
Each part leaves a file in the cache, and one that is there already is not run again. `vispco zoo get smol` comes first.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import depth
import depth_searches
import search_parts as parts
import vispco
from figures import Figure, write
from search_lab import Lab
from vispco import models as zoo
from vispco.check.check_model import check_model
from vispco.core.runs.files import write_json
from vispco.cost import BudgetWarning
from vispco.data import dataset
from vispco.evaluation.encoded import encode
from vispco.evaluation.spec import weights_digest
from vispco.pruner.pruner_spec import PrunerSpec
from vispco.search.gradient.static import DescentSettings
from vispco.search.joint.joint_settings import JointSettings
from vispco.timing.prefill import count_flops
from vispco_zoo.wordings import reworded

MODEL = "smol"
SEED = 2603  # of the items that its accuracy is judged on
RIVALS = ("tpe", "nsga2", "random-n")
SEARCHES = ("unpruned", "table", "grid", "joint", *RIVALS, "violations")
BATCH, ROUNDS = 8, 7
# 3 % of this grid are some 800 passes over a sample, half of what `depth.py` gives Algorithm 1: fewer budgets and steps.
PAPER = replace(
    depth.PAPER,
    seen=3,
    budgets=(0.15, 0.2, 0.3, 0.4, 0.55, 0.8),
    descent=DescentSettings(outer=2, batches=1, explore=10),
)
JOINT = JointSettings(rungs=(8, 16, 24), neighbours=4, shortlist=(4, 3))  # the same bill


def sight(per_task: int) -> dict[str, Any]:
    """Accuracy by task on fresh test items, with the questions in both wordings, and with blank pictures."""
    model, processor = vispco.load(MODEL)
    samples = dataset("test", limit=per_task, seed=SEED)[:]
    return {
        "items": len(samples),
        "accuracy": zoo.accuracy(model, processor, samples),
        "reworded": zoo.accuracy(model, processor, reworded(samples)),
        "blank": zoo.accuracy(model, processor, samples, blank=True),
    }


def laws() -> dict[str, Any]:
    """Every law with the real weights."""
    model, _ = vispco.load(MODEL)
    return check_model(model).to_dict()


@torch.inference_mode()
def speed() -> dict[str, Any]:
    """Speed-up to the first token, pictures in, against that of FLOPs; interleaved, the median of several rounds."""
    model, processor = vispco.load(MODEL)
    encoded = encode(model, processor, dataset("test", limit=1)[:BATCH])
    pruners = {None: None}
    pruners |= {budget: PrunerSpec.choose(scorer="fastv", budget=budget).resolve(model) for budget in (0.3, 0.5)}
    seconds: dict[float | None, list[float]] = {budget: [] for budget in pruners}
    for _ in range(ROUNDS):
        for budget, pruner in pruners.items():
            with nullcontext() if pruner is None else pruner(model):
                started = time.process_time()  # one thread: what others do on the machine does not count
                model(**encoded.inputs, use_cache=True, logits_to_keep=1)
                seconds[budget].append(time.process_time() - started)
    found = {}
    full = count_flops(model, encoded, None)
    for budget in (0.3, 0.5):
        ratios = [a / b for a, b in zip(seconds[None], seconds[budget], strict=True)]
        implied = full / count_flops(model, encoded, pruners[budget])
        found[f"{budget:g}"] = {"speedup": statistics.median(ratios), "implied": implied}
    return {"batch": BATCH, "rounds": ROUNDS, "visual_tokens": encoded.num_visual[0], **found}


def plan(given: argparse.Namespace) -> dict[str, depth.Part]:
    """All parts by name, in the order in which they run."""
    kept: list[Lab] = []

    def lab() -> Lab:
        kept[:] = kept or [Lab(MODEL, "fastv", given.calibration, given.test, BATCH)]
        return kept[0]

    whole = depth.searches(lab, given.cache)
    return {
        "sight": lambda: sight(given.items),
        "laws": laws,
        "speed": speed,
        **{name: whole[name] for name in SEARCHES},
        "joint": lambda: depth_searches.joint(lab(), JOINT),
        "paper": lambda: parts.searched(lab(), "multi-step", "static", "lagrangian", PAPER),
    }


def run(given: argparse.Namespace) -> dict[str, Any]:
    """The parts that are asked for and not in the cache yet; -> what each part that has run found."""
    settings: dict[str, Any] = {"weights": weights_digest(MODEL), "calibration": given.calibration, "test": given.test}
    only, found = set(filter(None, given.only.split(","))), {}
    for name, part in plan(given).items():
        settings["items"] = given.items if name == "sight" else None
        file = given.cache / f"{name}.json"
        kept = json.loads(file.read_text()) if file.is_file() else {}
        if kept.get("settings") != settings and (not only or name in only):
            print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
            given.cache.mkdir(parents=True, exist_ok=True)
            kept = {"settings": dict(settings), "found": part()}
            write_json(file, kept)
        if kept.get("settings") == settings:
            found[name] = kept["found"]
    return found


def figures_of(found: dict[str, Any]) -> dict[str, Figure]:
    """The figures of the parts that have run."""
    made: dict[str, Figure] = {}
    if "sight" in found:
        for name, key, better, bar in (
            ("accuracy", "accuracy", "higher", 0.85),
            ("accuracy_reworded", "reworded", "higher", None),
            ("blank", "blank", "lower", 0.45),
        ):
            made[name] = Figure(found["sight"][key]["average"], better, bar, "fraction")
    if "laws" in found:
        broken = [each["law"] for each in found["laws"]["findings"] if each["state"] != "holds"]
        made["laws_broken"] = Figure(len(broken), "lower", 0, "laws")
    for budget in ("0.3", "0.5") if "speed" in found else ():
        each = found["speed"][budget]
        ratio = each["speedup"] / each["implied"]
        made[f"ttft_vs_implied.{100 * float(budget):.0f}"] = Figure(ratio, "higher", 0.9, "ratio")
    if "grid" in found:
        whole = max((found["grid"][how] for how in ("accuracy", "kl")), key=lambda each: each["volume"])
        for name, bar in (("joint", 1.03), ("paper", 0.98), *((rival, None) for rival in RIVALS)):
            if name in found:
                ratio = found[name]["volume"] / whole["volume"]
                made[f"hypervolume_vs_grid.{name}"] = Figure(ratio, "higher", bar, "ratio")
                price = None if bar is None else 0.03
                made[f"cost_vs_grid.{name}"] = Figure(found[name]["flops"] / whole["flops"], "lower", price, "ratio")
    if "violations" in found:
        over = sum(part.get("violations", 0) for part in found.values())
        made["budget_violations"] = Figure(over, "lower", 0, "samples")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=64, help="items per task that `sight` is judged on")
    parser.add_argument("--calibration", type=int, default=8, help="samples per task")
    parser.add_argument("--test", type=int, default=16, help="samples per task")
    parser.add_argument("--only", default="", help="these parts alone, with commas between them")
    parser.add_argument("--cache", type=Path, default=Path("runs/bench-smol"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", BudgetWarning)  # a small budget lies under the floor, and is raised to it
    found = run(given)
    write("smol", figures_of(found), {"parts": found}, seed=SEED)


if __name__ == "__main__":
    main()
