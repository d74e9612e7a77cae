"""The recipe as one call: `vispco.models.train("tiny-qwen", "runs/zoo/tiny-qwen")`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vispco.core.runs.run_folder import RunFolder
from vispco_zoo.export import check_destination, export
from vispco_zoo.model_trainer import ModelTrainer, TrainingProgress
from vispco_zoo.recipe import recipe

if TYPE_CHECKING:
    from collections.abc import Callable


FILES = ("checkpoint.safetensors", "curve.jsonl", "tower.safetensors", "stable.safetensors")


def train(
    name: str,
    out: str | Path,
    *,
    seed: int = 0,
    steps: int | None = None,
    resume: bool = True,
    limit: int | None = None,
    report: Callable[[int, int, str], None] | None = None,
) -> dict[str, Any]:
    """Train a shipped model and save it in `out`, with its card, whose facts are returned.

    The run itself lives in `out`.run: a checkpoint every minute and a half, from which the same call continues after a
    kill, and the curve. `steps` is for trials: a number in place of the recipe's, without its last stretch.
    `report(step, steps, text)` is called after every step; `limit` is the number of test items per task for the card.
    """
    plan = recipe(name) if steps is None else replace(recipe(name), steps=steps, polish=0, rounds=())
    out = Path(out)
    check_destination(out)
    folder = RunFolder(out.with_name(out.name + ".run"), overwrite=not resume)
    with folder.claim("zoo train", {"name": name, "seed": seed}):
        folder.declare(*FILES)
        trainer = ModelTrainer(name, folder.path, seed=seed, plan=plan)
        if resume and not trainer.resume():
            trainer.start_from_shipped()

        def on_step(progress: TrainingProgress) -> None:
            if report is not None:
                report(progress.step, plan.steps, progress.describe())

        trainer.run(report=on_step)
        card = export(trainer, out, limit=limit)
        folder.finish()
    return card
