"""`vispco sweep`: evaluate many configurations, which gives the empirical frontier."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vispco.cli.config import facts
from vispco.cli.console import bar, say, show, table
from vispco.cli.options import AsJson, BatchSize, Split
from vispco.cli.place import tell_next
from vispco.core.plugins import with_plugins
from vispco.core.runs.run_folder import RunFolder
from vispco.evaluation.task_spec import TaskSpec, tell_skipped
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import window_of
from vispco.sweep.sweep_options import SweepOptions

if TYPE_CHECKING:
    from vispco.cost import Budget

_SYNTHETIC = 16  # items of each synthetic task, where --limit does not say: minutes, not half an hour


def sweep(
    model: ModelSpec,
    *,
    options: SweepOptions,
    asked: TaskSpec,
    split: Split = "test",
    limit: Annotated[
        int | None, typer.Option(min=0, help="Items of each task; 0 for all [16 of a synthetic task, all of a file]")
    ] = None,
    kl: Annotated[bool, typer.Option(help="Measure the KL to the unpruned model, too.")] = False,
    out: Annotated[Path, typer.Option(help="Folder of sweeps: their journal and frontiers.")] = Path("runs/sweep"),
    name: Annotated[str | None, typer.Option(help="Name of the study [MODEL-SCORER-SPACE-STRATEGY]")] = None,
    batch_size: BatchSize = 32,
    json: AsJson = False,
) -> None:
    """Evaluate many configurations: the empirical frontier.

    The same command continues an interrupted sweep.

    Examples:

        vispco sweep tiny-qwen --limit 32 --workers 2

        vispco sweep tiny-qwen --strategy tpe --space kernel:steps --trials 100
    """
    folder = RunFolder(out)
    folder.check(accepted=("journal.log*", "*.frontier.json", "*.run.json"))  # of sweeps
    from vispco.evaluation.frontier import Frontier  # noqa: PLC0415
    from vispco.evaluation.frontier_tables import points_table  # noqa: PLC0415
    from vispco.evaluation.sample_sizes import SampleSizes  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.sweep import Progress, SweepSpec, run  # noqa: PLC0415
    from vispco.timing.prediction import said_fraction  # noqa: PLC0415

    num_layers, tasks = model.num_layers(), asked.spec()
    chain = options.chain(num_layers)
    few = _SYNTHETIC if limit is None and not tasks.get("files") else limit or None
    spec = EvaluatorSpec(
        model=model, scorer=chain.to_dict(), split=split, limit=few, batch_size=batch_size, kl=kl, **tasks
    )

    @cache
    def sizes() -> SampleSizes:
        """What a schedule costs depends on the samples' sizes; they are looked at where a budget asks for it."""
        return SampleSizes.of(spec.build())

    def convert(share: Budget) -> float:
        text, visual = (int(number.median()) for number in (sizes().num_text, sizes().num_visual))
        return said_fraction(share, spec.build().model, (text, visual), say)

    window = window_of(options.budget, convert)
    space = options.space.replace(":", ".")
    words = (model.short_name, chain.name.replace(":", "."), space, options.strategy, *(f"{b:g}" for b in window or ()))
    study = name or "-".join(words)

    @cache
    def begin() -> None:
        """Write what was asked for, once it has been checked."""
        folder.write_json(f"{study}.run.json", {"model": model.name, **facts()})

    def show_progress(progress: Progress) -> None:
        begin()
        shown.tell(progress.settled, progress.total, progress.line)

    with bar("sweep") as shown:
        frontier = run(
            with_plugins(spec.build),
            SweepSpec(
                space=options.space,
                strategy=options.strategy,
                num_layers=num_layers,
                trials=options.trials,
                seed=options.seed,
                budget=window,
                cost=lambda schedule: sizes().fraction(schedule),
                earliest_layer=chain.earliest_layer,
            ),
            name=study,
            directory=folder,
            storage=options.storage,
            workers=options.workers,
            fingerprint=spec.fingerprint(),
            on_progress=show_progress,
        )
    title = f"{model.name}: {len(frontier)} configurations in {out}, {len(frontier.front)} on the frontier"
    optimal = Frontier(frontier.front, axis=frontier.axis)
    show(frontier.to_dict(), as_json=json, table=None if json else table(*points_table(optimal, "exact"), title))
    if frontier.points:  # all of them were asked the same
        tell_skipped(frontier.points[0].evaluation.details.get("skipped", {}), say)
    if not json:
        tell_next(out, f"vispco report {out}", f"vispco plot {out}")
