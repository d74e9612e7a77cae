"""Budgets of the whole prefill, vision tower inside: accuracy, against pruning in the language model alone and smaller pictures.

python benchmarks/whole.py [--models tiny-qwen ...] [--limit 64] [--seeds 3] [--cache runs/bench-whole]
python benchmarks/whole.py --by-input [--models tiny-qwen tiny-qwen3] [--limit 16]
python benchmarks/whole.py --sizes [Gemma3-4B ...] [--rounds 3]

Settings of pictures (cuts inside the tower, and pixels) and configurations of the language model are searched, with each seed on
other calibration items; all is judged on the same test items, whose seed was drawn once, when the settings were final. What
needs no seed is measured once for each model: the unpruned model, smaller pictures, and the search of the language model
alone. Accuracies are means over seeds, and their intervals bootstraps over items. Each part leaves a file in the cache, and
one that is there already is not run again. Models that are not named keep what results/whole.json has of them.
--by-input: is a setting for each input better than one for all? --sizes: times on towers and layers of real sizes, see
`whole_sizes.py`.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any

import whole_inputs
import whole_sizes
from figures import RESULTS, Figure, write

FRESH_SEED = 1017845518  # of the test items; drawn once, when the settings were final
MODELS = ("tiny-llava", "tiny-gemma", "tiny-qwen3", "tiny-qwen")
RESIZED = ("tiny-qwen", "tiny-qwen3", "tiny-llava")  # their pictures may enter with fewer pixels
SEARCHED = ("0.3p", "mean:0.4p", "mean:0.5p", "0.65p")
JUDGED = ("0.3p", "0.4p", "0.5p", "0.65p", "mean:0.4p", "mean:0.5p")
LANGUAGE_ONLY = ("0.5p", "0.65p", "0.8p")
SHARES = (0.9, 0.8, 0.7, 0.6, 0.5, 0.45, 0.4, 0.35, 0.3, 0.25, 0.2, 0.15, 0.1)  # of the pixels, of downsampling
CALIBRATION = 24  # items of each task
COUNTED = 24  # test items whose prefills torch counts
OTHERS = ("sizes", "by_input")  # details that are of no model's accuracies


class Setup:
    """One model, what searches learn from and what they are judged on."""

    def __init__(self, name: str, limit: int) -> None:
        self.name, self.limit = name, limit
        self.pixels = (1.0, 0.75, 0.5) if name in RESIZED else (1.0,)

    @cached_property
    def loaded(self) -> tuple[Any, Any]:
        import vispco

        return vispco.load(self.name)

    @cached_property
    def judge(self) -> Any:
        from vispco.data import dataset
        from vispco.evaluation import TaskEvaluator

        test = list(dataset("test", "all", limit=self.limit, seed=FRESH_SEED))
        return TaskEvaluator(*self.loaded, test, batch_size=32, details=True)

    def search(self, budgets: tuple[str, ...], seed: int, **space: Any) -> Any:
        from vispco.data import dataset
        from vispco.search.joint.joint_settings import JointSettings
        from vispco.search.modes import SearchRun
        from vispco.search.search_spec import Effort, SearchSpec
        from vispco.search.whole_search import TowerSpace, search_whole

        joint = JointSettings(
            rungs=(32, 48, 64), shapes=4, neighbours=4, shortlist=(6, 4), anchors=4, compensations=(0.5, 1.0)
        )
        spec = SearchSpec.choose(budgets=budgets, effort=Effort(batch_size=16, joint=joint), seed=seed)
        samples = list(dataset("calibration", "all", limit=CALIBRATION, seed=seed))
        run = SearchRun.prepare(*self.loaded, samples, spec, say=lambda text: print(self.name, text, flush=True))
        return search_whole(run, self.loaded[1], TowerSpace(**space))


def once(setup: Setup) -> dict[str, Any]:
    """What no seed changes: the unpruned model, smaller pictures, and a search of the language model alone."""
    rows = {"unpruned": row(setup.judge(None))}
    rows |= {f"downsampling, {budget}": each for budget, each in downsampled(setup.judge, setup.name).items()}
    for part in setup.search(LANGUAGE_ONLY, 0, blocks=(), samples=(32,), shapes=1).parts:
        rows[f"language model alone, {part.budget}"] = row(setup.judge(part.pruner()))
    return {"rows": rows}


def searched(setup: Setup, seed: int) -> dict[str, Any]:
    """A search with a seed, and all that it is judged on."""
    from vispco.cost import Budget

    began = time.process_time()
    found = setup.search(SEARCHED, seed, pixels=setup.pixels, samples=(32, 8 * CALIBRATION), shapes=3)
    seconds = time.process_time() - began
    parts = {part.budget.amount: part for part in found.parts}
    budgets = [Budget.of(budget) for budget in JUDGED]
    pruners = {str(budget): parts[budget.amount].pruner(budget) for budget in budgets}
    judge, rows = setup.judge, {}
    for budget, pruner in pruners.items():
        rows[budget] = {**row(judge(pruner)), "pictures": parts[Budget.of(budget).amount].setting.name}
    hard = {budget: pruner for budget, pruner in pruners.items() if not budget.startswith("mean")}
    return {
        "rows": rows,
        "violations": violations(*setup.loaded, judge.samples[:: max(1, len(judge.samples) // COUNTED)], hard),
        "rankings": {str(part.budget): part.ranking for part in found.parts},
        "search_seconds": seconds,
        "seconds": time.process_time() - began,
    }


def row(evaluation: Any) -> dict[str, Any]:
    spent = evaluation.details["spending"]["prefill"]
    return {
        "prefill": spent["mean"],
        "worst": spent["worst"],
        "language": evaluation.fraction["exact"],
        "scores": evaluation.details["scores"],
    }


def joined(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """The parts of one model as one, the first without a seed: each row the mean over seeds, its scores as an accuracy."""
    first, *runs = parts
    rows = {key: mean_row([each]) for key, each in first["rows"].items()}
    rows |= {key: mean_row([run["rows"][key] for run in runs]) for key in runs[0]["rows"]}
    counted = [run["violations"] for run in runs]
    largest = max(each["largest_share"] for each in counted)
    return {
        "rows": rows,
        "violations": {key: sum(each[key] for each in counted) for key in counted[0]} | {"largest_share": largest},
        **{key: [run[key] for run in runs] for key in ("rankings", "search_seconds", "seconds")},
    }


def mean_row(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Means over seeds; low, high: bootstrapped over items, each with the mean of its scores over seeds."""
    from vispco.evaluation.paired import paired_difference

    scores = {
        task: [statistics.mean(item) for item in zip(*(run["scores"][task] for run in runs), strict=True)]
        for task in runs[0]["scores"]
    }
    found = paired_difference(scores, {task: [0.0] * len(own) for task, own in scores.items()})
    keys = [key for key in ("prefill", "language") if key in runs[0]]
    by_seed = [statistics.mean(map(statistics.mean, run["scores"].values())) for run in runs]
    return {
        "accuracy": found.difference,
        "low": found.low,
        "high": found.high,
        **{key: statistics.mean(run[key] for run in runs) for key in keys},
        "worst": max(run["worst"] for run in runs),
        "tasks": {task: statistics.mean(own) for task, own in scores.items()},
        **({"seeds": by_seed, "pictures": [run["pictures"] for run in runs]} if "pictures" in runs[0] else {}),
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
        found[f"{budget}p"] = {"prefill": statistics.mean(spent), "worst": max(spent), "scores": scores}
    return found


def prefill_fractions(judge: Any, share: float) -> dict[str, float]:
    """By item, what the whole prefill of its smaller picture takes of that of the whole one."""
    from vispco.cost import Workload
    from vispco.evaluation.encoded import read
    from vispco.families import family_of
    from vispco.pruner.picture_setting import shrink_processor

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
    models = {name: each for name, each in details.items() if name not in OTHERS}
    found: dict[str, Figure] = {}
    for name, model in models.items():
        rows = model["rows"]
        for budget, bar in ((50, 0.89), (40, 0.85), (30, None)):
            hard, mean = rows[f"0.{budget // 10}p"], rows.get(f"mean:0.{budget // 10}p,max:1p")
            kept = [
                each for each in (hard, mean) if each is not None and each["prefill"] <= budget / 100
            ]  # as realised
            best = max((each["accuracy"] for each in kept), default=0.0)
            found[f"accuracy_at_{budget}p.{name}"] = Figure(best, "higher", bar, "accuracy")
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
        for budget in (0.3, 0.4, 0.5):
            if smaller := rows.get(f"downsampling, {budget}p"):
                ratio = rows[f"{budget}p"]["accuracy"] / smaller["accuracy"]
                found[f"vs_downsampling.{budget:.0%}.{name}"] = Figure(ratio, "higher", 1.0, "ratio")
    over = sum(model["violations"]["over"] for model in models.values())
    found["budget_violations"] = Figure(over, "lower", 0, "prefills")
    for name, model in details.get("by_input", {}).items():
        found[f"by_input_gain.{name}"] = Figure(model["gain"], "higher", None, "share")
        found[f"by_input_noise.{name}"] = Figure(model["noise"], "lower", None, "share")
    return found | whole_sizes.figures_of(details.get("sizes", {}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="*", default=None, help="default: all four; by input: tiny-qwen, tiny-qwen3")
    parser.add_argument("--limit", type=int, default=None, help="items of each of the eight tasks: 64, by input 16")
    parser.add_argument("--seeds", type=int, default=3, help="of the searches")
    parser.add_argument("--cache", type=Path, default=Path("runs/bench-whole"))
    parser.add_argument("--into", type=Path, default=RESULTS, help="another folder for the result")
    parser.add_argument("--by-input", action="store_true", help="measure what a setting for each input gains")
    parser.add_argument("--sizes", nargs="*", metavar="SIZE", help=f"of {', '.join(whole_sizes.SIZES)}; none: both")
    parser.add_argument("--rounds", type=int, default=3, help="of the prefills of a size")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    sizes, limit = given.sizes, given.limit or (whole_inputs.ITEMS if given.by_input else 64)
    models = whole_inputs.MODELS if given.by_input else MODELS
    names = (list(whole_sizes.SIZES) if sizes == [] else sizes) or given.models
    for name in models if names is None else names or (None,):  # without a model, the figures are made anew
        path = given.into / "whole.json"
        details = json.loads(path.read_text("utf-8"))["details"] if path.exists() else {}
        if sizes is not None:
            details.setdefault("sizes", {})[name] = whole_sizes.measure(name, given.rounds)
        elif name is not None and given.by_input:
            details.setdefault("by_input", {})[name] = whole_inputs.measure(Setup(name, limit), limit)
        elif name is not None:
            setup = Setup(name, limit)
            measured = [kept(given.cache / name / "once.json", setup, once)]
            for seed in range(given.seeds):
                file = given.cache / name / f"seed-{seed}.json"
                measured.append(kept(file, setup, lambda setup, seed=seed: searched(setup, seed)))
            details[name] = {**joined(measured), "seed": FRESH_SEED, "items": 8 * limit}
        write("whole", figures_of(details), details, FRESH_SEED, given.into)


def kept(file: Path, setup: Setup, measure: Callable[[Setup], dict[str, Any]]) -> dict[str, Any]:
    """What was measured with the same test items, now or before a kill."""
    from vispco.core.runs.files import write_json

    settings = {"limit": setup.limit, "fresh_seed": FRESH_SEED}
    known = json.loads(file.read_text("utf-8")) if file.is_file() else {}
    if known.get("settings") != settings:
        known = {"settings": settings, "found": measure(setup)}
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, known)
    return dict(known["found"])


if __name__ == "__main__":
    main()
