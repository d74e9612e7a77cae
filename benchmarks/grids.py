"""The full single-layer grid of every shipped model under every scorer: the ground truth of searches.

    python benchmarks/grids.py [--models tiny-qwen,tiny-llava,tiny-gemma] [--scorers fastv,sparsevlm,fitprune]
                               [--items 24] [--workers 2]

Each grid is a sweep with a journal of its own under runs/grids: stopped or killed, it goes on with the same command.
Writes results/grids/MODEL-SCORER.json, files that `Frontier.load` reads, and an overview of all that are there.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from figures import RESULTS
from vispco import models as zoo
from vispco import sweep
from vispco.core.runs.files import write_text
from vispco.evaluation import EvaluatorSpec
from vispco.evaluation.frontier import FORMAT, VERSION, Frontier, frontier_info
from vispco.models.shipped import MEASURED
from vispco.report.plots import style

GRIDS = RESULTS / "grids"
RUNS = Path("runs/grids")
SCORERS = ("fastv", "sparsevlm", "fitprune")
ITEMS = 24  # of each task: nine grids in about half an hour of one core
SHARE = 3 << 30  # bytes for unpruned prefixes in each worker
DIGITS = 6


def spec_of(model: str, scorer: str, items: int) -> EvaluatorSpec:
    return EvaluatorSpec(model=model, scorer={"name": scorer}, limit=items, share=SHARE)


def path_of(model: str, scorer: str) -> Path:
    return GRIDS / f"{model}-{scorer}.json"


def about(path: Path) -> dict[str, Any]:
    """What a committed grid depends on; nothing where there is none."""
    return json.loads(path.read_text()).get("about", {}) if path.exists() else {}


def grid(model: str, scorer: str, items: int = ITEMS, workers: int = 1) -> Frontier:
    """The grid, from its file if it is of this very model; else swept."""
    spec, path = spec_of(model, scorer, items), path_of(model, scorer)
    facts = {"model": model, "scorer": scorer, "items_per_task": items, "weights": spec.fingerprint()["weights"]}
    if about(path) != facts:
        found = sweep.run(
            spec,
            sweep.SweepSpec(space="single", strategy="grid", num_layers=layers_of(model)),
            name=f"{model}-{scorer}-{facts['weights']}",
            directory=RUNS / f"{model}-{scorer}",
            workers=workers,
            fingerprint=spec.fingerprint(),
            on_progress=lambda progress: print(progress.line, end="\r", file=sys.stderr),
        )
        save(found, path, facts)
    return Frontier.load(path)


def layers_of(model: str) -> int:
    config = json.loads((zoo.path(model) / "config.json").read_text())
    return int(config["text_config"]["num_hidden_layers"])


def save(found: Frontier, path: Path, facts: dict[str, Any]) -> None:
    """A frontier's file in short: a line for each point, no predictions, six digits."""
    points = []
    for point in found:
        data = point.to_dict()
        data["evaluation"]["details"] = {}
        points.append(json.dumps(rounded(data), separators=(",", ":")))
    head = json.dumps({"format": FORMAT, "version": VERSION, "about": facts, "axis": str(found.axis)})
    write_text(path, f'{head[:-1]}, "points": [\n' + ",\n".join(points) + "\n]}\n")


def rounded(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: rounded(value) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [rounded(value) for value in data]
    return round(data, DIGITS) if isinstance(data, float) else data


def overview(grids: dict[tuple[str, str], Frontier], path: Path) -> Path:
    """All configurations and their frontiers: a column for each model, a colour for each scorer."""
    models = list(dict.fromkeys(model for model, _ in grids))
    with style.canvas(path, size=(4.2 * len(models), 3.8), columns=len(models)) as axes:
        for plot, model in zip(axes[0], models, strict=True):
            for (name, scorer), found in grids.items():
                if name == model:
                    info, colour = frontier_info(found), style.COLOURS[SCORERS.index(scorer)]
                    plot.scatter(info.cost, info.accuracy, s=5, color=colour, alpha=0.3, linewidths=0)
                    line = style.LINES[SCORERS.index(scorer)]
                    plot.plot(*zip(*info.steps, strict=True), color=colour, linestyle=line, label=scorer)
            plot.set_title(model)
            style.label_cost(plot, info.axis)
            style.percent_axis(plot.yaxis)
            plot.set_ylim(0, 1)
        axes[0, 0].set_ylabel("accuracy")
        axes[0, -1].legend(loc="lower right")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(MEASURED))
    parser.add_argument("--scorers", default=",".join(SCORERS))
    parser.add_argument("--items", type=int, default=ITEMS, help="test items of each task")
    parser.add_argument("--workers", type=int, default=1)
    given = parser.parse_args()
    pairs = [(model, scorer) for scorer in given.scorers.split(",") for model in given.models.split(",")]
    for model, scorer in pairs:
        found = grid(model, scorer, given.items, given.workers)
        print(f"{model}-{scorer}: {len(found)} configurations, hypervolume {found.hypervolume():.4f}")
    there = [(m, s) for m in MEASURED for s in SCORERS if path_of(m, s).exists()]
    print(overview({pair: Frontier.load(path_of(*pair)) for pair in there}, GRIDS / "overview.png"))


if __name__ == "__main__":
    main()
