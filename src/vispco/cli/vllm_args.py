"""`vispco vllm-args`: the arguments of vLLM's server for a pruned engine."""

import shlex
import sys
from typing import Annotated

import typer

from vispco.cli.names import complete_scorers
from vispco.core.errors import VispcoError
from vispco.models.model_spec import MODEL, model_names
from vispco.pruner.pruning_options import budget_option

_METHOD = "Who chooses before the language model, such as divprune or uniform."
_REFUSED = "--refused-by-vispco"
"""In place of arguments: vLLM does not know it and does not start."""
_PRUNER = "In place of --method and --keep: a saved pruner, or the folder of a search (--servable)."


def vllm_args(
    model: Annotated[str, typer.Argument(help=MODEL, autocompletion=model_names)],
    *,
    method: Annotated[str | None, typer.Option(help=_METHOD, autocompletion=complete_scorers)] = None,
    keep: Annotated[float | None, typer.Option(help="The share of each picture's tokens that stays: 0.25.")] = None,
    pruner: Annotated[str | None, typer.Option(help=_PRUNER)] = None,
    budget: Annotated[str | None, budget_option("With --pruner: which of its schedules, 0.5 or 50%.")] = None,
    max_keep: Annotated[float, typer.Option(help="The largest share that a request may ask for.")] = 1.0,
    quoted: Annotated[
        bool,
        typer.Option("--quoted", help="For a script that is evaluated or for people to copy: with quotation marks."),
    ] = False,
) -> None:
    """Arguments of vLLM's server for a pruned model.

    Tokens leave before the language model, and those that stay keep their positions. docs/vllm.md says what was tested.

    Examples:

        python -m vllm.entrypoints.openai.api_server --model M $(vispco vllm-args M --method divprune --keep 0.25)

        vispco vllm-args M --pruner runs/served --budget 0.5 --max-keep 0.5 --quoted
    """
    from vispco.cost import Budget  # noqa: PLC0415
    from vispco.vllm import arguments  # noqa: PLC0415

    try:
        fraction = None if budget is None else Budget.of(budget).fraction
        words = arguments(model, method, keep=keep, pruner=pruner, budget=fraction, max_keep=max_keep)
    except VispcoError:
        if not sys.stdout.isatty():  # inside $( ), where an error would start a server that does not prune
            typer.echo(_REFUSED)
        raise
    typer.echo(shlex.join(words) if quoted else " ".join(words))
