"""`vispco serve`: an OpenAI-compatible endpoint for a pruned model."""

from __future__ import annotations

import socket
from typing import Annotated, Any

import typer

from vispco.cli.ask import METHOD, PRUNER
from vispco.cli.budgets import budget_option, deployed_budget
from vispco.cli.choice import ALLOCATION, COMPENSATE, CONTROLLER
from vispco.cli.completion import complete_models
from vispco.cli.options import MODEL, ModelOptions, spread
from vispco.errors import InvalidInputError, did_you_mean, needs_extra
from vispco.serving.limits import ServerLimits

LEVELS = ("critical", "error", "warning", "info", "debug")


@spread
def serve(
    model: Annotated[str, typer.Argument(help=MODEL, autocompletion=complete_models)],
    *,
    budget: Annotated[str, budget_option("Of requests that give none: a fraction of the FLOPs, 0.5 or 50%.")] = "0.5",
    pruner: Annotated[str | None, typer.Option(help=PRUNER)] = None,
    method: Annotated[str | None, typer.Option(help=METHOD)] = None,
    allocation: Annotated[
        str | None, typer.Option(help=f"{ALLOCATION} [by the run or method]", show_default=False)
    ] = None,
    compensate: Annotated[
        float | None, typer.Option(help=f"{COMPENSATE} [by the run or method]", show_default=False)
    ] = None,
    controller: Annotated[str | None, typer.Option(help=f"{CONTROLLER} [integral]", show_default=False)] = None,
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every network of this machine.")] = (
        "127.0.0.1"
    ),
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 8000,
    key: Annotated[
        str | None, typer.Option(envvar="VISPCO_API_KEY", help="Requests must carry this key (api_key of a client).")
    ] = None,
    allow_remote_images: Annotated[
        bool, typer.Option(help="Fetch pictures that requests give as http(s) addresses on the public internet.")
    ] = False,
    allow_image_host: Annotated[
        list[str] | None,
        typer.Option(help="Fetch pictures from this host, too, whatever its address; may be repeated."),
    ] = None,
    log_level: Annotated[str, typer.Option(help="critical, error, warning, info (each request) or debug.")] = "warning",
    limits: ServerLimits,
    loading: ModelOptions,
) -> None:
    """An OpenAI-compatible endpoint for a pruned model.

    Chat completions with pictures and streaming, pruned at the budget of the server or of the request. A request gives its own budget with extra_body={"budget": 0.3}. Answers carry tokens kept, FLOPs and milliseconds in
    usage.pruning. /metrics is for Prometheus. Listens on this machine alone unless --host says otherwise.

    Examples:

        vispco serve tiny-qwen --budget 0.5

        vispco serve Qwen/Qwen2.5-VL-3B-Instruct --pruner runs/qwen --budget 0.5 --device cuda --dtype bfloat16
    """
    if log_level not in LEVELS:
        raise InvalidInputError(
            f"--log-level {log_level} was given. Give {', '.join(LEVELS)}.{did_you_mean(log_level, LEVELS)}"
        )
    with needs_extra("Serving needs fastapi, uvicorn and openai", "serve"):
        import openai  # noqa: F401, PLC0415  # transformers' files name its types, and fail otherwise without it

        from vispco.serving.chat_handler import ServingRules  # noqa: PLC0415
        from vispco.serving.connections import run_server  # noqa: PLC0415
        from vispco.serving.remote_pictures import RemoteRules  # noqa: PLC0415
        from vispco.serving.server import build_app  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    from vispco.asking import PrunerChoice  # noqa: PLC0415
    from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415
    from vispco.planning import deployment  # noqa: PLC0415

    choice = PrunerChoice(
        run=pruner,
        method=method,
        budget=deployed_budget(budget, pruner),
        controller=controller,
        allocation=allocation,
        compensate=compensate,
    )
    if pruner is not None:
        deployment.read(pruner)  # what is wrong with it is refused before a model is loaded
    logging.get_logger("transformers").setLevel(logging.log_levels["error" if log_level == "warning" else log_level])
    rules = ServingRules(
        choice=choice,
        limits=limits,
        remote=RemoteRules(allow_remote_images, tuple(host.lower() for host in allow_image_host or ())),
    )
    listening = listen(host, port)
    app: Any = build_app(EvaluatorSpec(model=model, **loading.spec()), rules, key=key)
    shown = f"[{host}]" if ":" in host else host
    typer.echo(f"{model}, {choice.title}: http://{shown}:{listening.getsockname()[1]}/v1 (Ctrl-C stops it)", err=True)
    try:
        run_server(app, listening, limits, log_level)
    except KeyboardInterrupt:
        typer.echo("The server has stopped.", err=True)


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens there, before the model is loaded."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
    except OSError as error:
        listening.close()
        raise InvalidInputError(
            f"{host}:{port} cannot be listened on: {error.strerror or error}. Give another --port, or another --host."
        ) from error
    return listening
