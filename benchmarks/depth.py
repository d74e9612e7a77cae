"""The paper's experiment at its own depth: a model of 36 decoder layers, its 700 configurations, and what a gradient adds.

    python benchmarks/depth.py [--only sight,layers] [--calibration 24] [--test 24] [--cache runs/bench-depth]

`sight` and `layers` check the ground: accuracy, worst task and blank pictures of tiny-deep, and what the removal of each
layer costs. `speed` compares the time of a pruned prefill with its FLOPs. All other parts are searches, run for every
depth (10 is tiny-qwen, 20 is tiny-qwen grown without training, 36 is tiny-deep): each sees the same calibration set and
is judged on the same test set, with the bill of the table predictor as the common limit where a search can be stopped
at any time. `depth_figures.py` draws what was found.
Each part leaves a file in the cache, and one that is there already is not run again: after a kill, run the same command.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from transformers.modeling_outputs import BaseModelOutputWithPooling

import depth_searches
import search_parts as parts
from figures import Figure, write
from search_lab import Lab
from vispco import Pruner, Schedule, cost
from vispco import models as zoo
from vispco.core.runs.files import write_json
from vispco.cost import BudgetWarning
from vispco.data import dataset
from vispco.search.gradient.static import DescentSettings
from vispco.search.joint.joint_settings import JointSettings
from vispco_zoo.answers import prompt
from vispco_zoo.definitions import build_image_processor
from vispco_zoo.initialization import grow
from vispco_zoo.layer_removal import measure_layer_removal
from vispco_zoo.recipe import Growth

DEEP = "tiny-deep"
GROWN = "tiny-qwen grown to 20 layers"
MODELS = {10: "tiny-qwen", 20: GROWN, 36: DEEP}
GROWTH = Growth("tiny-qwen", (1, 3, *(2,) * 8), (1.0, 1 / 3, *(0.5,) * 8))  # keeps its accuracy without training
ROUNDS = 15
# A grid of 700 configurations on a few hundred samples leaves a search 2 % of its price, so every search looks at less
# than by default: batches of 8 samples, of which a search of single schedules sees four.
BATCH = 8
STATIC = parts.StaticPlan(
    seen=4, budgets=(0.2, 0.3, 0.4, 0.6, 0.8), descent=DescentSettings(outer=2, batches=2, explore=16)
)
# Algorithm 1 once more, with the kernel that is best on the calibration samples and as many budgets as its bill allows.
PAPER = replace(STATIC, budgets=(0.2, 0.3, 0.4, 0.5, 0.7, 0.8), monotone=True)
ONE_CHAIN = JointSettings(
    levels=(0.15, 0.3, 0.55),
    ranking_levels=(0.15, 0.3, 0.55),
    table_levels=(),
    rungs=(8, 32, 96),
    shapes=12,
    neighbours=4,
    shortlist=(6, 4),
    anchors=2,
    stage_ends=(0.3,),
)
Part = Callable[[], dict[str, Any]]


def sight(test: int | None) -> dict[str, Any]:
    """How well tiny-deep sees: accuracy by task, with and without its pictures."""
    model, processor = zoo.load(DEEP)
    samples = dataset("test", limit=test)[:]
    blank = zoo.accuracy(model, processor, samples, blank=True)
    return {"items": len(samples), "accuracy": zoo.accuracy(model, processor, samples), "blank": blank}


def layers(per_task: int) -> dict[str, Any]:
    """What the removal of each layer costs, on test items."""
    model, _ = zoo.load(DEEP)
    samples = dataset("test", limit=per_task)[:]
    found = measure_layer_removal(model, build_image_processor(DEEP), samples)
    rows = [{**asdict(entry), "matters": entry.matters} for entry in found]
    return {"items": len(samples), "layers": rows, "share": sum(row["matters"] for row in rows) / len(rows)}


def grown(folder: Path) -> Path:
    """tiny-qwen with every layer but the first split into two or three; saved, since a search loads a folder."""
    if not folder.is_dir():
        small, _ = zoo.load(GROWTH.model)
        config = copy.deepcopy(small.config)
        config.text_config.num_hidden_layers = sum(GROWTH.copies)
        config.text_config.layer_types = ["full_attention"] * sum(GROWTH.copies)
        deep = type(small)(config)
        grow(small, deep, GROWTH)
        deep.generation_config = small.generation_config
        begun = folder.with_suffix(".part")
        shutil.rmtree(begun, ignore_errors=True)
        of_the_small_model = shutil.ignore_patterns("*.safetensors", "config.json", "card.json", "README.md")
        shutil.copytree(zoo.path(GROWTH.model), begun, ignore=of_the_small_model)
        deep.save_pretrained(begun)
        begun.rename(folder)
    return folder


@torch.inference_mode()
def speed(keep: float = 0.4, layer: int = 6) -> dict[str, Any]:
    """Time of a pruned prefill over that of a full one, interleaved, beside the same ratio of FLOPs."""
    model, processor = zoo.load(DEEP)
    sample = max(dataset("test", limit=16)[:], key=lambda each: each.area)
    batch = 8
    text = [prompt(processor, sample.question)] * batch
    x = dict(processor(text=text, images=[[sample.image]] * batch, return_tensors="pt"))
    pixels = {name: x.pop(name) for name in ("pixel_values", "image_grid_thw")}
    features = model.model.get_image_features(**pixels, return_dict=True).pooler_output
    x |= {"image_grid_thw": pixels["image_grid_thw"], "use_cache": True, "logits_to_keep": 1}
    x["mm_encoder_outputs"] = {"image": BaseModelOutputWithPooling(pooler_output=features)}
    schedule = Schedule.single(layer, keep, model.config.text_config.num_hidden_layers)
    visual = int((x["input_ids"] == model.config.image_token_id).sum()) // batch
    workload = cost.Workload(x["input_ids"].shape[1] - visual, visual)
    fraction = float(cost.get("exact", model.config).fraction(schedule.tensor(), workload))
    ratios = []
    for _ in range(ROUNDS):
        seconds = []
        for pruner in (None, Pruner("fastv", schedule)):
            with nullcontext() if pruner is None else pruner(model):
                started = time.perf_counter()
                model(**x)
                seconds.append(time.perf_counter() - started)
        ratios.append(seconds[1] / seconds[0])
    return {"fraction": fraction, "time": statistics.median(ratios), "visual_tokens": visual, "batch": batch}


def paper(lab: Lab, cache: Path) -> dict[str, Any]:
    """Algorithm 1 with the kernel that had the least KL on the calibration samples."""
    tried = {file.stem: json.loads(file.read_text())["found"] for file in cache.glob("lagrangian-*.json")}
    kernel = algorithm_1(tried).removeprefix("lagrangian-")
    return {**parts.searched(lab, kernel, "static", "lagrangian", PAPER), "kernel": kernel}


def searches(lab: Callable[[], Lab], cache: Path) -> dict[str, Part]:
    """The searches at one depth, in the order in which they run; the table comes first, for its bill."""

    def static(kernel: str, mode: str, solver: str) -> Part:
        return lambda: parts.searched(lab(), kernel, mode, solver, STATIC)

    def trained(kernel: str, solver: str) -> Part:
        return lambda: parts.trained(lab(), cache, kernel, solver)

    return {
        "unpruned": lambda: parts.unpruned(lab(), cache),
        "table": lambda: parts.table(lab(), cache, ONE_CHAIN),
        "grid": lambda: parts.grid(lab(), cache),
        "joint": lambda: depth_searches.joint(lab()),
        "line-single": static("single", "line", "line"),
        "lagrangian-single": static("single", "static", "lagrangian"),
        "lagrangian-multi-step": static("multi-step", "static", "lagrangian"),
        "lagrangian-linear": static("linear", "static", "lagrangian"),
        "lagrangian-exponential": static("exponential", "static", "lagrangian"),
        "lagrangian-p-sigmoid": static("p-sigmoid", "static", "lagrangian"),
        "paper": lambda: paper(lab(), cache),
        "projection-steps": static("steps", "static", "projection"),
        "tpe": lambda: parts.tpe(lab(), cache, STATIC.seen),
        "nsga2": lambda: depth_searches.nsga2(lab(), cache),
        "random-n": lambda: depth_searches.random_n(lab(), cache),
        "random": lambda: parts.at_random(lab(), cache),
        "violations": lambda: parts.violations(lab(), cache),
        "predictor-lagrangian-single": trained("single", "lagrangian"),
        "predictor-lagrangian-multi-step": trained("multi-step", "lagrangian"),
        "predictor-projection-steps": trained("steps", "projection"),
        "evolution": lambda: depth_searches.evolution_strategy(lab(), cache),
    }


def plan(given: argparse.Namespace) -> dict[str, tuple[Path, Part]]:
    """All parts by name ("grid.36"), with the file that keeps each result."""
    found: dict[str, tuple[Path, Part]] = {
        "sight": (given.cache / "sight.json", lambda: sight(None)),
        "layers": (given.cache / "layers.json", lambda: layers(64)),
        "speed": (given.cache / "speed.json", speed),
    }
    for depth, model in MODELS.items():
        kept: list[Lab] = []

        def lab(model: str = model, kept: list[Lab] = kept) -> Lab:
            name = str(grown(given.cache / "tiny-qwen-20")) if model == GROWN else model
            kept[:] = kept or [Lab(name, given.scorer, given.calibration, given.test, BATCH)]
            return kept[0]

        folder = given.cache / str(depth)
        for name, part in searches(lab, folder).items():
            found[f"{name}.{depth}"] = (folder / f"{name}.json", part)
    return found


def run(given: argparse.Namespace) -> dict[str, Any]:
    """All parts that are not in the cache yet; -> what each found."""
    settings = {name: getattr(given, name) for name in ("scorer", "calibration", "test")}
    only = [name for name in given.only.split(",") if name]
    found = {}
    for name, (file, part) in plan(given).items():
        kept = json.loads(file.read_text()) if file.is_file() else {}
        if kept.get("settings") == settings:
            found[name] = kept["found"]
        elif not only or {name, *name.split(".")} & set(only):
            print(f"{time.strftime('%H:%M:%S')} {name}", flush=True)
            file.parent.mkdir(parents=True, exist_ok=True)
            started = time.perf_counter()
            found[name] = part()
            took = time.perf_counter() - started
            write_json(file, {"settings": settings, "found": found[name], "seconds": took})
    return found


def figures_of(found: dict[str, Any]) -> dict[str, Figure]:
    """The figures of all parts that have run."""
    made: dict[str, Figure] = {}
    if "sight" in found:
        scores = dict(found["sight"]["accuracy"])
        made[f"accuracy.{DEEP}"] = Figure(scores.pop("average"), "higher", 0.85, "fraction")
        made["worst_task"] = Figure(min(scores.values()), "higher", 0.65, "fraction")
        made["blank"] = Figure(found["sight"]["blank"]["average"], "lower", 0.45, "fraction")
    if "layers" in found:
        made["layers_that_matter"] = Figure(found["layers"]["share"], "higher", 0.8, "share")
    if "speed" in found:
        made["prefill_time_at_half"] = Figure(found["speed"]["time"], "lower", None, "ratio")
        made["prefill_flops_at_half"] = Figure(found["speed"]["fraction"], "lower", None, "ratio")
    return made | search_figures(found)


def algorithm_1(deep: dict[str, Any]) -> str:
    """The kernel of Algorithm 1 with the least KL on the calibration samples, mean over budgets; '' if none has run."""
    kl = {name: statistics.mean(part["calibration_kl"].values()) for name, part in deep.items() if name.startswith("lagrangian-")}  # fmt: skip
    return min(kl, key=kl.__getitem__, default="")


def search_figures(found: dict[str, Any]) -> dict[str, Figure]:
    """Quality and cost of the searches against the grid, and the gradient against the table by depth."""
    made: dict[str, Figure] = {}
    deep = {name.removesuffix(".36"): part for name, part in found.items() if name.endswith(".36")}
    grid, table = deep.get("grid"), deep.get("table")
    if grid:
        whole = max((grid[how] for how in ("accuracy", "kl")), key=lambda each: each["volume"])
        for figure, name, quality, price in (
            ("paper", "paper", 0.99, 0.021),
            ("paper_predictor", "predictor-lagrangian-multi-step", None, None),
            ("table", "table", None, None),
            ("best", "joint", 1.05, 0.02),
        ):
            if name in deep:
                ratio = deep[name]["volume"] / whole["volume"]
                made[f"hypervolume_vs_grid.{figure}"] = Figure(ratio, "higher", quality, "ratio")
                made[f"cost_vs_grid.{figure}"] = Figure(deep[name]["flops"] / whole["flops"], "lower", price, "ratio")
    if table and "tpe" in deep:
        made["hypervolume_vs_tpe"] = Figure(table["volume"] / deep["tpe"]["volume"], "higher", 1.0, "ratio")
    if table and "random" in deep:
        over = 100 * (table["points"]["0.5"][1] - deep["random"]["mean"])
        made["points_over_random_mean_at_50"] = Figure(over, "higher", 8, "points")
    if "violations" in deep:
        over = deep["violations"]["violations"] + sum(part.get("violations", 0) for n, part in deep.items() if n != "violations")  # fmt: skip
        made["budget_violations"] = Figure(over, "lower", 0, "samples")
    for depth in MODELS:
        trained = [
            found[name]["volume"] for name in found if name.startswith("predictor-") and name.endswith(f".{depth}")
        ]
        if trained and f"table.{depth}" in found:
            ratio = max(trained) / found[f"table.{depth}"]["volume"]
            made[f"gradient_vs_table.{depth}"] = Figure(ratio, "higher", None, "ratio")
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scorer", default="fastv")
    parser.add_argument("--calibration", type=int, default=24, help="samples per task")
    parser.add_argument("--test", type=int, default=24, help="samples per task")
    parser.add_argument("--only", default="", help="these parts alone (grid, grid.36 or 36), with commas between them")
    parser.add_argument("--cache", type=Path, default=Path("runs/bench-depth"))
    parser.add_argument("--threads", type=int, default=1)
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    warnings.simplefilter("ignore", BudgetWarning)  # 0.2 lies under the floor of small pictures, and is raised to it
    found = run(given)
    write("depth", figures_of(found), {"models": MODELS, "scorer": given.scorer, "parts": found}, seed=0)


if __name__ == "__main__":
    main()
