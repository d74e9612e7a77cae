"""`vispco serve`: an OpenAI-compatible endpoint for a pruned model."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from vispco.cli.console import say
from vispco.cli.options import Host
from vispco.core.errors import InvalidInputError, did_you_mean, needs_extra
from vispco.models.model_spec import ModelSpec
from vispco.pruner.pruning_options import PrunerOptions, budget_option
from vispco.serving.server.limits import ServerLimits

_LEVELS = ("critical", "error", "warning", "info", "debug")


@dataclass(frozen=True, kw_only=True)
class _ServedPruner(PrunerOptions):
    """The same, where a request may give another budget."""

    budget: Annotated[
        str,
        budget_option(
            "Of requests that give none: a fraction of the FLOPs (0.5, 50%), of the time (0.6t), milliseconds (40ms; see "
            "vispco profile) or KV bytes (120MB)."
        ),
    ] = "0.5"


def serve(
    model: ModelSpec,
    *,
    pruning: _ServedPruner,
    host: Host = "127.0.0.1",
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
) -> None:
    """An OpenAI-compatible endpoint for a pruned model.

    Chat completions with pictures and streaming, pruned at the budget of the server or of the request. A request gives
    its own budget with extra_body={"budget": 0.3}, or "30%", "40ms", "0.6t". Answers carry tokens kept, FLOPs and
    milliseconds in usage.pruning. /metrics is for Prometheus. Listens on this machine alone unless --host says otherwise.

    Examples:

        vispco serve tiny-qwen --budget 0.5

        vispco serve Qwen/Qwen2.5-VL-3B-Instruct --pruner runs/qwen --budget 0.5 --device cuda --dtype bfloat16
    """
    if log_level not in _LEVELS:
        raise InvalidInputError(
            f"--log-level {log_level} was given. Give {', '.join(_LEVELS)}.{did_you_mean(log_level, _LEVELS)}"
        )
    with needs_extra("Serving needs fastapi, uvicorn and openai", "serve"):
        import openai  # noqa: F401, PLC0415  # transformers' files name its types, and fail otherwise without it

        from vispco.serving.server.chat_handler import ServingRules  # noqa: PLC0415
        from vispco.serving.server.connections import build_server, listen  # noqa: PLC0415
        from vispco.serving.server.remote_pictures import RemoteRules  # noqa: PLC0415
        from vispco.serving.server.server import build_app  # noqa: PLC0415
    from transformers.utils import logging  # noqa: PLC0415

    spec = pruning.spec(model.name, say)
    logging.get_logger("transformers").setLevel(logging.log_levels["error" if log_level == "warning" else log_level])
    rules = ServingRules(
        spec=spec,
        limits=limits,
        remote=RemoteRules(allow_remote_images, tuple(host.lower() for host in allow_image_host or ())),
    )
    listening = listen(host, port)
    app: Any = build_app(model, rules, key=key)
    shown = f"[{host}]" if ":" in host else host
    typer.echo(
        f"{model.name}, {spec.title}: http://{shown}:{listening.getsockname()[1]}/v1 (Ctrl-C stops it)", err=True
    )
    try:
        build_server(app, limits, log_level).run(sockets=[listening])
    except KeyboardInterrupt:
        typer.echo("The server has stopped.", err=True)
