"""`vispco profile`: what a prefill takes on this device, measured once, so that a budget can be milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from vispco.cli.data import TaskOptions
from vispco.cli.options import spread
from vispco.cli.output import show
from vispco.cli.telling import bar
from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import check_writable
from vispco.models.model_spec import ModelSpec

if TYPE_CHECKING:
    from vispco.cost import TimeProfile


@spread
def profile(
    model: ModelSpec,
    *,
    asked: TaskOptions,
    batches: Annotated[str, typer.Option(help="Samples at once that are measured.")] = "1,4,8,16",
    tokens: Annotated[int | None, typer.Option(min=64, help="The longest prompt (default: by the pictures).")] = None,
    scorer: Annotated[str, typer.Option(help="Whose drop is timed.")] = "fastv",
    rounds: Annotated[int, typer.Option(min=1, help="Timed rounds, after one that warms up.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Also write it here (it is kept in the user's cache).")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Measure this device once; then budgets may be 40ms, 0.6t or 120MB.

    What layers, drops and the rest of a prefill take is kept in the user's cache.

    Examples:

        vispco profile tiny-qwen

        vispco profile ./my-model --device cuda --dtype bfloat16 --batches 1,8
    """
    numbers = _numbers(batches)
    if out is not None:
        check_writable(out)
    from vispco import scorers  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.timing.profiling import POINTS, profile_model, sizes_up_to  # noqa: PLC0415

    scorers.get(scorer)  # a wrong name is refused before a model is loaded
    spec = EvaluatorSpec(model=model, **asked.spec(), limit=2)
    judge = spec.build()
    with bar(f"{model.name}: profile") as shown:
        found = profile_model(
            judge.model,
            judge.processor,
            judge.samples,
            batches=numbers,
            tokens=POINTS if tokens is None else sizes_up_to(tokens),
            rounds=rounds,
            scorer=scorer,
            on_progress=shown.tell,
        )
    place = found.save()
    if out is not None:
        found.save(out)
    data = {"profile": str(place), "device": found.device, "dtype": found.dtype, "rows": rows_of(found)}
    show(data, as_json=json, table=None if json else profile_table(found, f"{model.name}: {place}"))


def rows_of(found: TimeProfile) -> list[dict[str, Any]]:
    """For each batch: milliseconds of a layer by tokens, of a drop, and of the rest."""
    return [
        {
            "batch": batch,
            "layer_ms": dict(zip(map(str, found.tokens), found.layer_ms[place], strict=True)),
            "drop_ms": found.drop_ms[place],
            "fixed_ms": found.fixed_ms[place],
            "margin": found.cost(batch).margin,
        }
        for place, batch in enumerate(found.batches)
    ]


def profile_table(found: TimeProfile, title: str) -> Any:
    from rich.table import Table  # noqa: PLC0415

    table = Table(
        title=title,
        caption=f"ms on {found.device}, {found.dtype}; columns: one layer with so many tokens; "
        "margin: what planners leave free of a budget of time",
    )
    shown = sorted({0, len(found.tokens) // 2, len(found.tokens) - 1})
    for column in ("batch", *(str(found.tokens[place]) for place in shown), "drop", "rest", "margin"):
        table.add_column(column, justify="right", no_wrap=True)
    for row, batch in enumerate(found.batches):
        layers = (f"{found.layer_ms[row][place]:.3g}" for place in shown)
        rest = (f"{found.drop_ms[row]:.3g}", f"{found.fixed_ms[row]:.3g}", f"{found.cost(batch).margin:.0%}")
        table.add_row(str(batch), *layers, *rest)
    return table


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise InvalidInputError(f"The batches {text!r} were given. Give whole numbers above 0, such as 1,8.")
    return found
