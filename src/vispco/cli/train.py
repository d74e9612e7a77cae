"""`vispco train`: the weights of a learned method, for a model."""

from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import draws_bars, is_first, say, show
from vispco.cli.options import AsJson
from vispco.cli.place import RUNS, run_folder
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.search.scorer_options import ScorerOptions


def train(
    method: Annotated[str, typer.Argument(help="atp-llava, dynamic-llava or madtp.")],
    model: ModelSpec,
    *,
    out: Annotated[
        Path | None, typer.Option(help="The run's folder; the same command continues it [runs/MODEL-METHOD]")
    ] = None,
    training: ScorerOptions,
    calibration: CalibrationSpec,
    tasks: Annotated[str, typer.Option(help="Synthetic tasks to train on: 'all', or names.")] = "all",
    overwrite: Annotated[bool, typer.Option(help="Replace an earlier training in the folder.")] = False,
    json: AsJson = False,
) -> None:
    """Train a learned method for a model.

    The gradient goes through the mask engine; the model itself does not change.

    Examples:

        vispco train dynamic-llava tiny-qwen --out runs/dynamic

        vispco train madtp tiny-qwen --out runs/madtp --target 0.4 --steps 500 --samples 64
    """
    out = RUNS / f"{model.short_name}-{method}" if out is None else out
    run_folder(out, overwrite=overwrite)  # refused now where no run could be put into it
    from vispco.search.learned import train_scorer  # noqa: PLC0415
    from vispco.search.learned.train_scorer import check_method  # noqa: PLC0415

    check_method(method)
    settings, network = training.settings(), training.network()
    loaded, processor = model.load()
    samples, about = calibration.load(TaskSpec(tasks=tasks), processor, seed=training.seed, say=say)
    scorer = train_scorer(
        loaded,
        processor,
        samples,
        method,
        settings,
        directory=out,
        options=network,
        facts={**facts(loaded.device), "data": about},
        overwrite=overwrite,
        show=draws_bars(),
        say=say,
    )
    trained = {
        "method": method,
        "model": model.name,
        "scorer": f"{method}(weights={out})",
        **scorer.network.config.options,
    }
    if is_first():
        show(trained, as_json=json, table=f"{out}: {trained['scorer']} is a scorer for {model.name} now")
