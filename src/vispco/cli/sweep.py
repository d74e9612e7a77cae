"""`vispco sweep`: the empirical frontier, by evaluating many schedules."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from vispco.cli.budgets import budget_option, not_yet, window_of
from vispco.cli.choice import ALLOCATION, SCORER, chain_of, check_given, divided, method_chain
from vispco.cli.completion import complete_models, complete_scorers
from vispco.cli.data import TaskOptions, tell_skipped
from vispco.cli.options import MODEL, ModelOptions, spread
from vispco.cli.output import show
from vispco.cli.place import tell_next
from vispco.cli.search import points_table
from vispco.cli.telling import draws_bars, say
from vispco.core.runs.run_folder import RunFolder

if TYPE_CHECKING:
    from vispco.cost import Budget

SYNTHETIC = 16  # items of each synthetic task, where --limit does not say: minutes, not half an hour


@spread
def sweep(
    model: Annotated[str, typer.Argument(help=MODEL, autocompletion=complete_models)],
    *,
    strategy: Annotated[str, typer.Option(help="grid, random, tpe or nsga2.")] = "grid",
    space: Annotated[str, typer.Option(help="single, stages, kernel:NAME or free.")] = "single",
    trials: Annotated[int | None, typer.Option(help="How many configurations [a grid: all of them]")] = None,
    scorer: Annotated[str, typer.Option(help=SCORER, autocompletion=complete_scorers)] = "fastv",
    method: Annotated[str | None, typer.Option(help="The scorers of a published method, in place of --scorer.")] = None,
    allocation: Annotated[str | None, typer.Option(help=f"{ALLOCATION} [score]", show_default=False)] = None,
    budget: Annotated[
        str | None,
        budget_option(
            "Only configurations that cost at most HIGH, or LOW,HIGH, of the unpruned FLOPs: 50%, or 0.3,0.5; or 0.6t, 40ms."
        ),
    ] = None,
    asked: TaskOptions,
    split: Annotated[str, typer.Option(help="Of synthetic tasks: test, calibration or train.")] = "test",
    limit: Annotated[
        int | None, typer.Option(min=0, help="Items of each task; 0 for all [16 of a synthetic task, all of a file]")
    ] = None,
    kl: Annotated[bool, typer.Option(help="Measure the KL to the unpruned model, too.")] = False,
    loading: ModelOptions,
    out: Annotated[Path, typer.Option(help="Folder of sweeps: their journal and frontiers.")] = Path("runs/sweep"),
    name: Annotated[str | None, typer.Option(help="Name of the study [MODEL-SCORER-SPACE-STRATEGY]")] = None,
    storage: Annotated[str | None, typer.Option(help="An Optuna storage URL, for many machines.")] = None,
    engine: Annotated[str, typer.Option(help="local (processes) or ray.")] = "local",
    workers: Annotated[int, typer.Option(min=0, help="Processes or actors; 0 runs in this one.")] = 1,
    ray_address: Annotated[str | None, typer.Option(help="An existing Ray cluster.")] = None,
    gpus: Annotated[float, typer.Option(min=0, help="GPUs of each Ray actor.")] = 0,
    seed: Annotated[int, typer.Option(min=0)] = 0,
    batch_size: Annotated[int, typer.Option(min=1)] = 32,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Evaluate many configurations: the empirical frontier.

    The same command continues an interrupted sweep.

    Examples:

        vispco sweep tiny-qwen --limit 32 --workers 2

        vispco sweep tiny-qwen --strategy tpe --space kernel:steps --trials 100
    """
    window_of(budget, not_yet)
    check_given(allocation)
    folder = RunFolder(out)
    folder.check(accepted=("journal.log*", "*.frontier.json", "*.run.json"))  # of sweeps
    from functools import cache  # noqa: PLC0415

    from vispco.cli.config import facts  # noqa: PLC0415
    from vispco.evaluation.frontier import Frontier  # noqa: PLC0415
    from vispco.evaluation.sample_sizes import SampleSizes  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.scorers import Chain  # noqa: PLC0415
    from vispco.sweep import Progress, ProgressDisplay, SweepSpec, SweepWorkers, run  # noqa: PLC0415

    num_layers = loading.num_layers(model)
    scorer = divided(method_chain(method, scorer, num_layers) or scorer, allocation)
    tasks = asked.spec()
    spec = EvaluatorSpec(
        model=model,
        scorer=chain_of(scorer),
        split=split,
        limit=SYNTHETIC if limit is None and not tasks.get("files") else limit or None,
        batch_size=batch_size,
        kl=kl,
        **tasks,
        **loading.spec(),
    )

    @cache
    def sizes() -> SampleSizes:
        """What a schedule costs depends on the samples' sizes; they are looked at where a budget asks for it."""
        return SampleSizes.of(spec.build())

    def convert(share: Budget) -> float:
        from vispco.timing.prediction import as_fractions  # noqa: PLC0415

        text, visual = (int(number.median()) for number in (sizes().num_text, sizes().num_visual))
        return as_fractions([share], spec.build().model, (text, visual), say)[0]

    window = window_of(budget, convert)
    words = (
        Path(model).name,
        Chain.of(scorer).name.replace(":", "."),
        space.replace(":", "."),
        strategy,
        *(f"{share:g}" for share in window or ()),
    )
    study = name or "-".join(words)

    @cache
    def begin() -> None:
        """Write what was asked for, once it has been checked."""
        folder.write_json(f"{study}.run.json", {"model": model, **facts()})

    def show_progress(progress: Progress) -> None:
        begin()
        display(progress)

    with ProgressDisplay(draw=draws_bars()) as display:
        frontier = run(
            spec.build,
            SweepSpec(
                space=space,
                strategy=strategy,
                num_layers=num_layers,
                trials=trials,
                seed=seed,
                budget=window,
                cost=lambda schedule: sizes().fraction(schedule),
                earliest_layer=Chain.of(scorer).earliest_layer,
            ),
            name=study,
            directory=folder,
            storage=storage,
            workers=SweepWorkers(workers, engine, ray_address, gpus),
            fingerprint=spec.fingerprint(),
            on_progress=show_progress,
        )
    title = f"{model}: {len(frontier)} configurations in {out}, {len(frontier.front)} on the frontier"
    optimal = Frontier(frontier.front, axis=frontier.axis)
    show(frontier.to_dict(), as_json=json, table=None if json else points_table(optimal, title, "exact"))
    if frontier.points:  # all of them were asked the same
        tell_skipped(frontier.points[0].evaluation.details.get("skipped", {}), say)
    if not json:
        tell_next(out, f"vispco report {out}", f"vispco plot {out}")
