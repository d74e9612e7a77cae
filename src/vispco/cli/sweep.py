"""`vispco sweep`: the empirical frontier, by evaluating many schedules."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.output import check_writable, show
from vispco.cli.search import points_table


def sweep(
    model: Annotated[str, typer.Argument(help="A shipped model, a folder, or a hub id.")],
    *,
    strategy: Annotated[str, typer.Option(help="grid, random, tpe or nsga2.")] = "grid",
    space: Annotated[str, typer.Option(help="single, stages, kernel:NAME or free.")] = "single",
    trials: Annotated[int | None, typer.Option(help="How many configurations [a grid: all of them]")] = None,
    scorer: Annotated[str, typer.Option(help="Which tokens stay: fastv, sparsevlm, fitprune, random.")] = "fastv",
    tasks: Annotated[str, typer.Option(help="'all', or names with commas between them.")] = "all",
    split: Annotated[str, typer.Option(help="test, calibration or train.")] = "test",
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many items of each task.")] = None,
    out: Annotated[Path, typer.Option(help="Folder of the journal and the frontier.")] = Path("runs/sweep"),
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
    """Evaluate many configurations; stop and go on with the same command.

    Examples:

        vispco sweep tiny-qwen --limit 32 --workers 2

        vispco sweep tiny-qwen --strategy tpe --space kernel:steps --trials 100
    """
    check_writable(out / "journal.log")
    from contextlib import nullcontext  # noqa: PLC0415

    from vispco import sweep as sweeps  # noqa: PLC0415
    from vispco.cli.info import read_config  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415

    chosen = tasks if tasks == "all" else tuple(part.strip() for part in tasks.split(",") if part.strip())
    spec = EvaluatorSpec(
        model=model, scorer={"name": scorer}, tasks=chosen, split=split, limit=limit, batch_size=batch_size
    )
    with nullcontext() if json else sweeps.Display() as display:
        frontier = sweeps.run(
            spec.build,
            name=name or f"{Path(model).name}-{scorer}-{space.replace(':', '.')}-{strategy}",
            space=space,
            strategy=strategy,
            num_layers=read_config(model).get_text_config().num_hidden_layers,
            directory=out,
            trials=trials,
            storage=storage,
            workers=workers,
            engine=engine,
            seed=seed,
            fingerprint=spec.fingerprint(),
            on_progress=display,
            ray_address=ray_address,
            gpus_per_worker=gpus,
        )
    show(frontier.to_dict(), as_json=json, table=None if json else points_table(frontier, f"{model}: {out}", "exact"))
