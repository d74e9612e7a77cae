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

ROUTES = ("/v1/chat/completions", "/v1/models", "/health", "/metrics")

_log = logging.getLogger("vispco.serving")


class PrunedModelManager(ModelManager):  # type: ignore[misc]  # transformers is untyped here
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
    manager = PrunedModelManager(spec)
    handler = PrunedChatHandler(manager, state, rules, metrics)
    controller = handler.usual_pruner.controller  # what is wrong with the pruner is told before a request
    # by name: versions of transformers have different handlers, and what stands behind them is whether other sites may call
    handlers = dict.fromkeys(name for name in signature(build_server).parameters if name.endswith("_handler"))
    app = build_server(manager, **{**handlers, "chat_handler": handler}, generation_state=state)

    def tell_metrics() -> PlainTextResponse:
        gauges = {} if controller is None else controller_gauges(controller)
        return PlainTextResponse(metrics.text(gauges), media_type=CONTENT_TYPE)

    app.add_api_route("/metrics", tell_metrics, methods=["GET"], response_model=None)
    app.router.routes[:] = [route for route in app.router.routes if getattr(route, "path", None) in ROUTES]
    for kind, answer in ANSWERS.items():
        app.add_exception_handler(kind, answer)
    return Gate(app, metrics, rules.limits, key)


async def _refuse(_: Request, error: RequestError) -> JSONResponse:
    return JSONResponse(error_body(str(error), error.status, error.param), status_code=error.status)


async def _refuse_input(_: Request, error: VispcoError) -> JSONResponse:
    return JSONResponse(error_body(str(error), 400), status_code=400)


async def _refuse_http(_: Request, error: HTTPException) -> JSONResponse:
    return JSONResponse(error_body(str(error.detail), error.status_code), status_code=error.status_code)


async def _refuse_body(_: Request, error: RequestValidationError) -> JSONResponse:
    first = error.errors()[0] if error.errors() else {"msg": "it is not a JSON object"}
    return JSONResponse(error_body(f"The body cannot be read: {first['msg']}.", 400), status_code=400)


async def _fail(_: Request, error: Exception) -> JSONResponse:
    _log.error("A request failed: %s", error, exc_info=error)
    sentence = f"The request failed inside the server: {' '.join(str(error).split())}"
    return JSONResponse(error_body(sentence, 500), status_code=500)


ANSWERS: dict[Any, Any] = {
    RequestError: _refuse,
    VispcoError: _refuse_input,
    HTTPException: _refuse_http,
    RequestValidationError: _refuse_body,
    Exception: _fail,
}
