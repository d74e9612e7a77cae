"""`vispco profile`: times of a prefill on this device, measured once, so that budgets can be milliseconds."""

from pathlib import Path
from typing import Annotated

import typer

from vispco.cli.console import bar, show, table
from vispco.cli.options import AsJson, Rounds
from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import check_writable
from vispco.evaluation.task_spec import TaskSpec
from vispco.models.model_spec import ModelSpec


def profile(
    model: ModelSpec,
    *,
    asked: TaskSpec,
    batches: Annotated[str, typer.Option(help="Samples at once that are measured.")] = "1,4,8,16",
    tokens: Annotated[int | None, typer.Option(min=64, help="The longest prompt (default: by the pictures).")] = None,
    scorer: Annotated[str, typer.Option(help="Whose drop is timed.")] = "fastv",
    rounds: Rounds = 5,
    out: Annotated[Path | None, typer.Option(help="Also write it here (it is kept in the user's cache).")] = None,
    json: AsJson = False,
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
    from vispco.timing.tables import profile_rows, profile_table  # noqa: PLC0415

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
    data = {"profile": str(place), "device": found.device, "dtype": found.dtype, "rows": profile_rows(found)}
    columns, rows, caption = profile_table(found)
    show(data, as_json=json, table=None if json else table(columns, rows, f"{model.name}: {place}", caption=caption))


def _numbers(text: str) -> tuple[int, ...]:
    try:
        found = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        found = ()
    if not found or min(found) < 1:
        raise InvalidInputError(f"The batches {text!r} were given. Give whole numbers above 0, such as 1,8.")
    return found
