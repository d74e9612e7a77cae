"""Budgets of the whole prefill, vision tower inside: accuracy, against pruning in the language model alone and smaller pictures.

python benchmarks/whole.py [--models tiny-qwen ...] [--limit 64] [--seed 2026]
python benchmarks/whole.py --sizes [Gemma3-4B ...] [--rounds 3]

Settings of pictures (cuts inside the tower, and pixels) and configurations of the language model are searched on calibration
items; everything is then judged once on test items of a seed that the search never saw. Models that are not named keep what
results/whole.json has of them. --sizes: times on towers and layers of real sizes instead, see `whole_sizes.py`.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from typing import Any

import whole_sizes
from figures import RESULTS, Figure, write

MODELS = ("tiny-llava", "tiny-gemma", "tiny-qwen3", "tiny-qwen")
RESIZED = ("tiny-qwen", "tiny-qwen3", "tiny-llava")  # their pictures may enter with fewer pixels
SEARCHED = ("0.3p", "mean:0.4p", "mean:0.5p", "0.65p")
JUDGED = ("0.3p", "0.4p", "0.5p", "0.65p", "mean:0.4p", "mean:0.5p")
LANGUAGE_ONLY = ("0.5p", "0.65p")
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1)  # of the pixels, of downsampling
CALIBRATION = 24  # items of each task
COUNTED = 24  # test items whose prefills torch counts


def measure(name: str, limit: int, seed: int) -> dict[str, Any]:
    """All accuracies of one model."""
    import vispco
    from vispco.cost import Budget
    from vispco.data import dataset
    from vispco.evaluation import TaskEvaluator
    from vispco.search.joint.joint_settings import JointSettings
    from vispco.search.modes import SearchRun
    from vispco.search.search_spec import Effort, SearchSpec
    from vispco.search.whole_search import TowerSpace, search_whole

    warnings.simplefilter("ignore")
    model, processor = vispco.load(name)
    samples, began = list(dataset("calibration", "all", limit=CALIBRATION)), time.process_time()
    joint = JointSettings(
        rungs=(32, 48, 64), shapes=4, neighbours=4, shortlist=(6, 4), anchors=4, compensations=(0.5, 1.0)
    )
    effort, pixels = Effort(batch_size=16, joint=joint), (1.0, 0.75, 0.5) if name in RESIZED else (1.0,)
    spec = SearchSpec.choose(budgets=SEARCHED, pixels=pixels, effort=effort)
    run = SearchRun.prepare(model, processor, samples, spec, say=lambda text: print(name, text, flush=True))
    found = search_whole(run, processor, TowerSpace(pixels=pixels, samples=(32, 64), shapes=3))
    alone = SearchSpec.choose(budgets=LANGUAGE_ONLY, effort=effort)
    other = SearchRun.prepare(model, processor, samples, alone, batches=run.batches)  # type: ignore[arg-type]
    language = search_whole(other, processor, TowerSpace(blocks=(), samples=(32,), shapes=1))
    searched = time.process_time() - began
    judge = TaskEvaluator(
        model, processor, list(dataset("test", "all", limit=limit, seed=seed)), batch_size=32, details=True
    )
    parts = {part.budget.amount: part for part in found.parts}
    budgets = [Budget.of(budget) for budget in JUDGED]
    pruners = {str(budget): parts[budget.amount].pruner(budget) for budget in budgets}
    rows = {"unpruned": row(judge(None))}
    for budget, pruner in pruners.items():
        rows[budget] = {**row(judge(pruner)), "pictures": parts[Budget.of(budget).amount].setting.name}
    for part in language.parts:
        rows[f"language model alone, {part.budget}"] = row(judge(part.pruner()))
    rows |= {f"downsampling, {budget}": each for budget, each in downsampled(judge, name).items()}
    hard = {budget: pruner for budget, pruner in pruners.items() if not budget.startswith("mean")}
    return {
        "rows": rows,
        "violations": violations(model, processor, judge.samples[:: max(1, len(judge.samples) // COUNTED)], hard),
        "rankings": {str(part.budget): part.ranking[:5] for part in found.parts},
        "search_seconds": searched,
        "seconds": time.process_time() - began,
    }


def row(evaluation: Any) -> dict[str, Any]:
    spent = evaluation.details["spending"]["prefill"]
    tasks = {task.task: task.accuracy for task in evaluation.tasks}
    keys = {key: getattr(evaluation, key) for key in ("accuracy", "low", "high")}
    return {
        **keys,
        "prefill": spent["mean"],
        "worst": spent["worst"],
        "language": evaluation.fraction["exact"],
        "tasks": tasks,
    }


def downsampled(judge: Any, name: str) -> dict[str, Any]:
    """Unpruned on smaller pictures: for each budget and item the largest of some shares whose whole prefill is within it."""
    from vispco.core.schedule import Schedule
    from vispco.pruner.pruner import Pruner

    if name not in RESIZED:
        return {}
    full, found = Schedule.full(judge.num_layers), {}
    answers = {share: judge(Pruner("random", full, pixels=share)) for share in SHARES}
    costs = {share: prefill_fractions(judge, share) for share in SHARES}
    for budget in (0.3, 0.4, 0.5):
        scores: dict[str, list[float]] = {}
        spent = []
        for sample in judge.samples:
            fits = [share for share in SHARES if costs[share][sample.id] <= budget]
            share = max(fits) if fits else min(SHARES)
            scores.setdefault(sample.task, []).append(sample.score(answers[share].details["predictions"][sample.id]))
            spent.append(costs[share][sample.id])
        accuracy = sum(sum(each) / len(each) for each in scores.values()) / len(scores)
        found[f"{budget}p"] = {"accuracy": accuracy, "prefill": sum(spent) / len(spent), "worst": max(spent)}
    return found


def prefill_fractions(judge: Any, share: float) -> dict[str, float]:
    """By item, what the whole prefill of its smaller picture takes of that of the whole one."""
    from vispco.cost import Workload
    from vispco.evaluation.encoded import read
    from vispco.families import family_of
    from vispco.pruner.picture_size import shrink_processor

    small, cost, family = shrink_processor(judge.processor, share), judge.costs["exact"], family_of(judge.model)

    def flops(processor: Any, sample: Any, pixels: float) -> float:
        layout = family.layout(judge.model, read(judge.model, processor, sample).tensors, pixels=pixels)
        load = Workload(layout.num_prompt, layout.num_visual)
        return float(layout.tower_flops[0]) + float(cost.full(load)[0])

    return {each.id: flops(small, each, share) / flops(judge.processor, each, 1.0) for each in judge.samples}


def violations(model: Any, processor: Any, samples: Any, pruners: dict[str, Any]) -> dict[str, Any]:
    """Prefills that torch's counter finds above their budget, tower inside and output head apart.

    floors: those that were raised to what text and tower take by themselves, with a warning; they are no violations.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    from vispco.cost import BudgetWarning
    from vispco.evaluation.encoded import encode

    text = model.config.get_text_config()

    def counted(inputs: Any) -> int:
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
            model(**inputs, logits_to_keep=1)
        return int(counter.get_total_flops()) - 2 * text.hidden_size * text.vocab_size

    over, largest, number, floors = 0, 0.0, 0, 0
    for sample in samples:
        whole = counted(encode(model, processor, [sample]).inputs)
        for budget, pruner in pruners.items():
            encoded = encode(model, processor, [sample], pruner=pruner)
            with warnings.catch_warnings(record=True) as said, pruner(model):
                warnings.simplefilter("always")
                share = counted(encoded.inputs) / whole / float(budget.rstrip("p"))
            raised = any(issubclass(warning.category, BudgetWarning) for warning in said)
            floors, number = floors + raised, number + 1
            if not raised:
                over, largest = over + (share > 1.0), max(largest, share)
    return {"prefills": number, "over": over, "largest_share": largest, "floors": floors}


def area(points: list[tuple[float, float]]) -> float:
    """Under the best accuracy of all points up to a cost, over costs from 0.2 to 1 of the whole prefill."""
    inside, total, best, at = sorted(points), 0.0, 0.0, 0.2
    for cost, accuracy in [*inside, (1.0, 0.0)]:
        total += best * max(0.0, min(1.0, cost) - at)
        best, at = max(best, accuracy), max(at, min(1.0, cost))
    return total


def figures_of(details: dict[str, Any]) -> dict[str, Figure]:
    models = {name: each for name, each in details.items() if name != "sizes"}
    found: dict[str, Figure] = {}
    for name, model in models.items():
        rows = model["rows"]
        for budget, bar in ((50, 0.89), (40, 0.85), (30, None)):
            hard, mean = rows[f"0.{budget // 10}p"], rows.get(f"mean:0.{budget // 10}p,max:1p")
            kept = [
                each for each in (hard, mean) if each is not None and each["prefill"] <= budget / 100
            ]  # as realised
            found[f"accuracy_at_{budget}p.{name}"] = Figure(max(r["accuracy"] for r in kept), "higher", bar, "accuracy")
            found[f"hard_accuracy_at_{budget}p.{name}"] = Figure(hard["accuracy"], "higher", None, "accuracy")
        plain = (1.0, rows["unpruned"]["accuracy"])
        own = [
            plain,
            *(
                (each["prefill"], each["accuracy"])
                for key, each in rows.items()
                if key.endswith("p") and key[0] in "0m"
            ),
        ]
        alone = [
            plain,
            *((each["prefill"], each["accuracy"]) for key, each in rows.items() if key.startswith("language")),
        ]
        found[f"hypervolume_vs_llm_only.{name}"] = Figure(area(own) / area(alone), "higher", 1.1, "ratio")
        ratios = [
            rows[f"{budget}p"]["accuracy"] / rows[f"downsampling, {budget}p"]["accuracy"]
            for budget in (0.3, 0.4, 0.5)
            if f"downsampling, {budget}p" in rows
        ]
        if ratios:
            found[f"vs_downsampling.{name}"] = Figure(min(ratios), "higher", 1.0, "ratio")
    over = sum(model["violations"]["over"] for model in models.values())
    found["budget_violations"] = Figure(over, "lower", 0, "prefills")
    return found | whole_sizes.figures_of(details.get("sizes", {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=MODELS)
    parser.add_argument("--limit", type=int, default=64, help="test items of each of the eight tasks")
    parser.add_argument("--seed", type=int, default=2026, help="of the test items")
    parser.add_argument("--sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(whole_sizes.SIZES)}; none: both")
    parser.add_argument("--rounds", type=int, default=3, help="of the prefills of a size")
    given = parser.parse_args()
    path = RESULTS / "whole.json"
    sizes = None if given.sizes is None else given.sizes or list(whole_sizes.SIZES)
    for name in sizes or given.models or (None,):  # without a model, the figures are made anew
        found: dict[str, Any] = {}
        if sizes:
            found = whole_sizes.measure(name, given.rounds)
        elif name is not None:
            found = {**measure(name, given.limit, given.seed), "seed": given.seed, "items": 8 * given.limit}
        details = json.loads(path.read_text("utf-8"))["details"] if path.exists() else {}
        if found:
            (details.setdefault("sizes", {}) if sizes else details)[name] = found
        write("whole", figures_of(details), details, given.seed)


if __name__ == "__main__":
    main()
