"""`build_app`: transformers' server with our manager and handler, and only the routes that are served."""

from __future__ import annotations

import logging
from inspect import signature
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse
from starlette.exceptions import HTTPException
from transformers.cli.serving.model_manager import ModelManager
from transformers.cli.serving.server import build_server
from transformers.cli.serving.utils import GenerationState

from vispco.core.errors import VispcoError
from vispco.models.model_spec import ModelSpec
from vispco.serving.server.chat_handler import PrunedChatHandler, ServingRules
from vispco.serving.server.gate import Gate
from vispco.serving.server.metrics import CONTENT_TYPE, ServerMetrics, controller_gauges
from vispco.serving.server.request_error import RequestError, error_body

_ROUTES = ("/v1/chat/completions", "/v1/models", "/health", "/metrics")

_log = logging.getLogger("vispco.serving")


class _PrunedModelManager(ModelManager):  # type: ignore[misc]  # transformers is untyped here
    """transformers' model manager for one model, loaded as `vispco.load` does: shipped models, folders, hub ids."""

    def __init__(self, spec: ModelSpec) -> None:
        self._spec = spec
        self._model: Any = None
        super().__init__(force_model=spec.name, attn_implementation=spec.attn_implementation)

    @staticmethod
    def process_model_name(model_id: str) -> str:
        return model_id

    def _load_processor(self, model_id_and_revision: str, gguf_file: str | None = None) -> Any:
        del model_id_and_revision, gguf_file
        self._model, processor = self._spec.load()
        return processor

    def _load_model(self, model_id_and_revision: str, **options: Any) -> Any:
        del model_id_and_revision, options
        model, self._model = self._model, None
        return model

    def get_gen_models(self, cache_dir: str | None = None) -> list[dict[str, Any]]:
        del cache_dir
        return [{"id": self._spec.name, "object": "model", "created": 0, "owned_by": "vispco"}]


def build_app(spec: ModelSpec, rules: ServingRules, *, key: str | None = None) -> Gate:
    """The ASGI application; the model is loaded before this returns."""
    metrics, state = ServerMetrics(), GenerationState()
    manager = _PrunedModelManager(spec)
    handler = PrunedChatHandler(manager, state, rules, metrics)
    controller = handler.usual_pruner.controller  # a pruner that cannot be made is refused before any request
    # by name: versions of transformers have different handlers, and what stands behind them is whether other sites may call
    handlers = dict.fromkeys(name for name in signature(build_server).parameters if name.endswith("_handler"))
    app = build_server(manager, **{**handlers, "chat_handler": handler}, generation_state=state)

    def tell_metrics() -> PlainTextResponse:
        gauges = {} if controller is None else controller_gauges(controller)
        return PlainTextResponse(metrics.text(gauges), media_type=CONTENT_TYPE)

    app.add_api_route("/metrics", tell_metrics, methods=["GET"], response_model=None)
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", None) in _ROUTES]
    for kind in (VispcoError, HTTPException, RequestValidationError, Exception):
        app.add_exception_handler(kind, _answer_error)
    return Gate(app, metrics, rules.limits, key)


async def _answer_error(_: Request, error: Exception) -> JSONResponse:
    """The error in the form that OpenAI's clients read; one of the server's own is logged, too."""
    status, message, param = 400, str(error), None
    if isinstance(error, RequestError):
        status, param = error.status, error.param
    elif isinstance(error, HTTPException):
        status, message = error.status_code, str(error.detail)
    elif isinstance(error, RequestValidationError):
        found = error.errors()
        message = f"The body cannot be read: {found[0]['msg'] if found else 'it is not a JSON object'}."
    elif not isinstance(error, VispcoError):
        _log.error("A request failed: %s", error, exc_info=error)
        status, message = 500, f"The request failed inside the server: {' '.join(message.split())}"
    return JSONResponse(error_body(message, status, param), status_code=status)
