"""transformers' chat handler, with pictures read here, a budget for each request, and its cost in `usage`."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from transformers.cli.serving.chat_completion import (
    ChatCompletionHandler,
    TransformersCompletionCreateParamsStreaming,
)
from transformers.cli.serving.utils import get_response_template

from vispco.asking.default_pruner import PrunerChoice, check_budget
from vispco.asking.prompt_inputs import prompt_inputs
from vispco.errors import InvalidInputError
from vispco.evaluation.encoded import pad_token
from vispco.pruner import Pruner
from vispco.serving.gate import CLIENT_GONE
from vispco.serving.messages import Chat, PictureRules, read_chat
from vispco.serving.metrics import ServerMetrics
from vispco.serving.pruned_generation import PrunedGeneration
from vispco.serving.request_error import RequestError

# Answered differently than a client would expect, if they were ignored as transformers does.
REFUSED = ("generation_config", "tools", "functions", "function_call", "response_format", "audio", "logprobs")
PRUNERS_HELD = 32
REQUESTS_HELD = 1024


class PrunedParams(TransformersCompletionCreateParamsStreaming, total=False):  # type: ignore[call-arg, misc]
    """What a request may hold: OpenAI's fields, transformers' own, and the budget."""

    budget: float


@dataclass(frozen=True, kw_only=True)
class ServingRules:
    """choice: how the model is pruned, with the budget of requests that give none. max_waiting: requests at once."""

    choice: PrunerChoice
    pictures: PictureRules
    max_waiting: int = 64
    max_new_tokens: int = 4096


def _template_fits(processor: Any, model: Any, ids: torch.Tensor) -> bool:
    """Whether the prompt ends as transformers' response template of this kind of model expects it."""
    anchors = (get_response_template(processor, model) or {}).get("start_anchor") or ()
    prompt = processor.tokenizer.decode(ids[0].tolist())
    return any(anchor in prompt for anchor in ([anchors] if isinstance(anchors, str) else anchors))


class _Place:
    """A place among the waiting requests, given back once: by whoever ends the request, on whatever thread."""

    def __init__(self, metrics: ServerMetrics, most: int) -> None:
        if not metrics.enter(most):
            raise RequestError(f"{most} requests are waiting already. Try again later.", status=503)
        self.metrics, self.held = metrics, True

    def leave(self, *, answered: bool) -> None:
        held, self.held = self.held, False
        if held:
            self.metrics.leave(answered=answered)


class PrunedChatHandler(ChatCompletionHandler):  # type: ignore[misc]  # transformers is untyped here
    """Serves `/v1/chat/completions`. Pictures are read on one thread and answers written on another, in turn."""

    _valid_params_class = PrunedParams

    def __init__(self, model_manager: Any, generation_state: Any, rules: ServingRules, metrics: ServerMetrics) -> None:
        super().__init__(model_manager, generation_state)
        self.rules, self.metrics = rules, metrics
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pictures")
        self._running: dict[str, PrunedGeneration] = {}
        self._pruner: Callable[[float], Pruner] = lru_cache(PRUNERS_HELD)(self._new_pruner)

    async def handle_request(self, body: dict[str, Any], request_id: str) -> Any:
        del request_id  # a client may send the same one twice
        self._check(body)
        budget = self._budget(body.get("budget"))
        model_id, model, processor = self._resolve_model(body)
        place = _Place(self.metrics, self.rules.max_waiting)
        try:
            loop = asyncio.get_running_loop()
            inputs = await loop.run_in_executor(self._reading, self._inputs, model, processor, body)
            config = self._config(body, model, processor)
            running = PrunedGeneration(model, processor.tokenizer, self._pruner, budget, CLIENT_GONE.get(), place.leave)
            running.template_fits = _template_fits(processor, model, inputs["input_ids"])
            request = self._register(running)
            manager = self.generation_state.get_manager(model_id)
            given = (request, running, processor, body["model"], inputs, config)
            if body.get("stream"):
                return self._streaming(*given, gen_manager=manager)
            return await self._non_streaming(*given, gen_manager=manager)
        except BaseException:
            place.leave(answered=False)
            raise

    def _register(self, running: PrunedGeneration) -> str:
        """Remember a request until its usage is told. One whose client never reads so far is forgotten in the end."""
        request = f"chatcmpl-{uuid.uuid4().hex}"
        self._running[request] = running
        while len(self._running) > REQUESTS_HELD:
            self._running.pop(next(iter(self._running)))
        return request

    def _new_pruner(self, budget: float) -> Pruner:
        _, model, _ = self._resolve_model({})
        return self.rules.choice.at(budget).pruner(model)

    def _check(self, body: dict[str, Any]) -> None:
        refused = [name for name in REFUSED if body.get(name) not in (None, False, [], {})]
        if refused:
            raise RequestError(f"This endpoint does not serve {', '.join(refused)}. Leave it out.", param=refused[0])
        if body.get("n") not in (None, 1):
            raise RequestError(f"n={body['n']} was given. This endpoint gives one answer.", param="n")
        self._validate_request(body)

    def _budget(self, given: Any) -> float:
        if given is None:
            return self.rules.choice.budget
        try:
            return check_budget(given)
        except InvalidInputError as error:
            raise RequestError(str(error), param="budget") from error

    def _inputs(self, model: Any, processor: Any, body: dict[str, Any]) -> dict[str, Any]:
        """The prompt as `vispco.evaluation` makes it, on the model's device."""
        chat: Chat = read_chat(body.get("messages"), self.rules.pictures)
        found = prompt_inputs(processor, chat.turns, chat.images)
        return {name: each.to(model.device) for name, each in found.items()}

    def _config(self, body: dict[str, Any], model: Any, processor: Any) -> Any:
        if body.get("max_tokens") is None and body.get("max_completion_tokens") is not None:
            body["max_tokens"] = body["max_completion_tokens"]
        try:
            if body.get("logit_bias"):
                body["logit_bias"] = {token: float(bias) for token, bias in body["logit_bias"].items()}
            config = self._build_generation_config(body, model.generation_config)
            wanted = int(config.max_new_tokens)
        except (TypeError, ValueError, AttributeError) as error:
            raise RequestError(f"The request's settings cannot be read: {error}") from error
        if not 1 <= wanted <= self.rules.max_new_tokens:
            raise RequestError(
                f"max_tokens={wanted} was given. This server gives 1 to {self.rules.max_new_tokens}.",
                param="max_tokens",
            )
        config.pad_token_id = pad_token(processor)
        return config

    def _build_completion(self, request_id: str, *args: Any, **more: Any) -> Any:
        return super()._build_completion(request_id, *args, **self._with_usage(request_id, more))

    def _build_chunk_sse(self, request_id: str = "", *args: Any, **more: Any) -> Any:
        return super()._build_chunk_sse(request_id, *args, **self._with_usage(request_id, more))

    def _with_usage(self, request_id: str, more: dict[str, Any]) -> dict[str, Any]:
        usage = more.get("usage")
        running = None if usage is None else self._running.pop(request_id, None)
        if usage is None or running is None or running.usage is None:
            return more
        self.metrics.measured(running.usage, usage.prompt_tokens, usage.completion_tokens)
        return {**more, "usage": usage.model_copy(update={"pruning": running.usage.to_dict()})}
