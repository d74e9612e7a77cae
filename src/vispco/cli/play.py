"""`vispco play`: a page on this machine to ask a model about one's own pictures."""

from __future__ import annotations

from typing import Annotated

import typer

from vispco.cli.ask import METHOD, PRUNER
from vispco.cli.budgets import budget_option, one_budget
from vispco.cli.choice import ALLOCATION, COMPENSATE
from vispco.cli.completion import complete_models
from vispco.cli.options import MODEL, ModelOptions, spread


@spread
def play(
    model: Annotated[str, typer.Argument(help=MODEL, autocompletion=complete_models)] = "tiny-qwen",
    *,
    budget: Annotated[str, budget_option("Where the slider begins: 0.5 or 50%.")] = "0.5",
    pruner: Annotated[str | None, typer.Option(help=PRUNER)] = None,
    method: Annotated[str | None, typer.Option(help=METHOD)] = None,
    allocation: Annotated[
        str | None, typer.Option(help=f"{ALLOCATION} [by the run or method]", show_default=False)
    ] = None,
    compensate: Annotated[
        float | None, typer.Option(help=f"{COMPENSATE} [by the run or method]", show_default=False)
    ] = None,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The longest answer.")] = 64,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every network of this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default: a free one from 7860 on.")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
    loading: ModelOptions,
) -> None:
    """A page to drop a picture, ask, and move the budget.

    Answers, surviving tokens by layer, time and cost change with it.

    Examples:

        vispco play

        vispco play Qwen/Qwen2.5-VL-3B-Instruct --pruner runs/qwen --device cuda --dtype bfloat16
    """
    from vispco.asking import PrunerChoice  # noqa: PLC0415
    from vispco.errors import InvalidInputError  # noqa: PLC0415
    from vispco.planning import deployment  # noqa: PLC0415
    from vispco.play.page import build_page, load_gradio, start  # noqa: PLC0415
    from vispco.play.session import PlaySession  # noqa: PLC0415

    load_gradio()  # before a model is loaded for nothing
    choice = PrunerChoice(
        run=pruner, method=method, budget=one_budget(budget), allocation=allocation, compensate=compensate
    )
    if pruner is not None:
        deployment.read(pruner)
    session = PlaySession(*loading.load(model), choice, max_new_tokens=max_new_tokens)
    page = build_page(session, name=model)
    try:
        url = start(page, host=host, port=port, browser=open_page, wait=False)
    except OSError as error:
        raise InvalidInputError(f"The page cannot be served there: {error} Give another --port or --host.") from error
    typer.echo(f"{model}: {url} (Ctrl-C stops it)", err=True)
    page.block_thread()
