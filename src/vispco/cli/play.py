"""`vispco play`: a page on this machine to ask a model about one's own pictures."""

from dataclasses import dataclass
from typing import Annotated

import typer

from vispco.cli.console import say
from vispco.cli.options import Host
from vispco.core.errors import InvalidInputError
from vispco.models.model_spec import MODEL, ModelSpec, model_names
from vispco.pruner.pruning_options import PrunerOptions, budget_option, one_budget


@dataclass(frozen=True, kw_only=True)
class _SliderPruner(PrunerOptions):
    """The same, with a slider for the budget."""

    budget: Annotated[str, budget_option("Where the slider begins: 0.5 or 50%.")] = "0.5"

    def check(self) -> None:
        """Refuse what the slider cannot show."""
        one_budget(self.budget)


@dataclass(frozen=True)
class _PlayModel(ModelSpec):
    """The same, with a model to begin with."""

    name: Annotated[str, typer.Argument(help=MODEL, autocompletion=model_names)] = "tiny-qwen"


def play(
    model: _PlayModel,
    *,
    pruning: _SliderPruner,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The longest answer.")] = 64,
    host: Host = "127.0.0.1",
    port: Annotated[int | None, typer.Option(min=1, max=65535, help="Default: a free one from 7860 on.")] = None,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open it in a browser.")] = True,
) -> None:
    """A page to drop a picture, ask, and move the budget.

    Answers, surviving tokens by layer, time and cost change with it.

    Examples:

        vispco play

        vispco play Qwen/Qwen2.5-VL-3B-Instruct --pruner runs/qwen --device cuda --dtype bfloat16
    """
    from vispco.serving.play.page import build_page, load_gradio, start  # noqa: PLC0415
    from vispco.serving.play.session import PlaySession  # noqa: PLC0415

    load_gradio()  # before a model is loaded for nothing
    spec = pruning.spec(model.name, say)
    session = PlaySession(*model.load(), spec, max_new_tokens=max_new_tokens)
    page = build_page(session, name=model.name)
    try:
        url = start(page, host=host, port=port, browser=open_page)
    except OSError as error:
        raise InvalidInputError(f"The page cannot be served there: {error} Give another --port or --host.") from error
    typer.echo(f"{model.name}: {url} (Ctrl-C stops it)", err=True)
    page.block_thread()
