"""transformers' chat handler, with pictures read here, a budget for each request, and its cost in `usage`."""

import asyncio
import sys
import uuid
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property, lru_cache
from typing import Any

import torch
from transformers.cli.serving.chat_completion import (
    ChatCompletionHandler,
    TransformersCompletionCreateParamsStreaming,
)
from transformers.cli.serving.utils import get_response_template

from vispco.core.errors import InvalidInputError
from vispco.cost import Budget
from vispco.data.files.samples import context_length
from vispco.evaluation.encoded import apply_template, pad_token
from vispco.pruner.pruner import Pruner
from vispco.pruner.pruner_spec import BUDGET, PrunerSpec
from vispco.serving.ask.prompt_inputs import prompt_inputs
from vispco.serving.server.gate import CLIENT_GONE
from vispco.serving.server.limits import ServerLimits
from vispco.serving.server.messages import Chat, fetch_remote, load_pictures, read_chat
from vispco.serving.server.metrics import ServerMetrics
from vispco.serving.server.pruned_generation import PrunedGeneration
from vispco.serving.server.remote_pictures import RemoteRules
from vispco.serving.server.request_error import RequestError
from vispco.serving.server.request_settings import check_settings
from vispco.serving.server.stop_strings import read_stops

_PREPARED = 4  # requests whose pictures are decoded before the model is free for them; the others wait as they came
_PRUNERS_HELD = 32
_REQUESTS_HELD = 1024


class _PrunedParams(TransformersCompletionCreateParamsStreaming, total=False):  # type: ignore[call-arg, misc]
    """What a request may hold: OpenAI's fields, transformers' own, and the budget."""

    budget: float | str


@dataclass(frozen=True, kw_only=True)
class ServingRules:
    """spec: how the model is pruned, with the budget of requests that give none. remote: hosts that pictures may come from."""

    spec: PrunerSpec
    limits: ServerLimits = field(default_factory=ServerLimits)
    remote: RemoteRules = field(default_factory=RemoteRules)


def _template_fits(processor: Any, model: Any, ids: torch.Tensor) -> bool:
    """Whether the prompt ends as transformers' response template of this kind of model expects it."""
    anchors = (get_response_template(processor, model) or {}).get("start_anchor") or ()
    prompt = processor.tokenizer.decode(ids[0].tolist())
    return any(anchor in prompt for anchor in ([anchors] if isinstance(anchors, str) else anchors))


class _Place:
    """A place among the waiting requests, and then among the prepared; given back once, on whatever thread it ends."""

    def __init__(self, metrics: ServerMetrics, most: int) -> None:
        if not metrics.enter(most):
            raise RequestError(f"{most} requests are waiting already. Try again later.", status=503)
        self.metrics, self.held = metrics, True
        self.release: Callable[[], Any] = lambda: None

    async def prepare(self, prepared: asyncio.Semaphore) -> None:
        """Wait until few enough requests are prepared."""
        await prepared.acquire()
        loop = asyncio.get_running_loop()
        self.release = lambda: loop.call_soon_threadsafe(prepared.release)

    def leave(self, *, failed: bool = False) -> None:
        held, self.held = self.held, False
        if held:
            self.metrics.leave(failed=failed)
            with suppress(RuntimeError):  # the server has stopped meanwhile
                self.release()


class PrunedChatHandler(ChatCompletionHandler):  # type: ignore[misc]  # transformers is untyped here
    """Serves `/v1/chat/completions`. Pictures are decoded on one thread and answers written on another, in turn."""

    _valid_params_class = _PrunedParams

    def __init__(self, model_manager: Any, generation_state: Any, rules: ServingRules, metrics: ServerMetrics) -> None:
        super().__init__(model_manager, generation_state)
        self.rules, self.metrics = rules, metrics
        self._reading = ThreadPoolExecutor(max_workers=1, thread_name_prefix="pictures")
        self._prepared = asyncio.Semaphore(_PREPARED)
        self._running: dict[str, PrunedGeneration] = {}
        self._pruner: Callable[[float | str], Pruner] = lru_cache(_PRUNERS_HELD)(self._new_pruner)

    async def handle_request(self, body: dict[str, Any], request_id: str) -> Any:
        del request_id  # a client may send the same one twice
        limits, remote = self.rules.limits, self.rules.remote
        self._validate_request(body)
        model_id, model, processor = self._resolve_model(body)
        check_settings(body, model.config.get_text_config().vocab_size)
        budget, stops = self._budget(body.get("budget")), read_stops(body.pop("stop", None))
        config = self._config(body, model, processor)
        chat = read_chat(body.pop("messages", None), limits, remote)
        place = _Place(self.metrics, limits.max_waiting)
        try:
            chat = await fetch_remote(chat, limits, remote)
            await place.prepare(self._prepared)
            loop = asyncio.get_running_loop()
            shown = self._pruner(budget).prepare(processor)
            inputs = await loop.run_in_executor(self._reading, self._inputs, model, shown, chat)
            generation = (model, processor.tokenizer, self._pruner, budget, CLIENT_GONE.get(), place.leave, stops)
            running = PrunedGeneration(*generation)
            running.template_fits = _template_fits(processor, model, inputs["input_ids"])
            request = f"chatcmpl-{uuid.uuid4().hex}"
            self._running[request] = running  # until its usage is told
            while len(self._running) > _REQUESTS_HELD:  # of clients that never read so far, the oldest is forgotten
                self._running.pop(next(iter(self._running)))
            manager = self.generation_state.get_manager(model_id)
            given = (request, running, processor, body["model"], inputs, config)
            if body.get("stream"):
                response = self._streaming(*given, gen_manager=manager)
                response.body_iterator = _until_done(response.body_iterator)
                return response
        except BaseException:
            place.leave()
            raise
        # From here on the inference thread gives the place back, even if nobody waits for the answer any more.
        answer = asyncio.ensure_future(self._non_streaming(*given, gen_manager=manager))
        answer.add_done_callback(lambda done: done.cancelled() or done.exception())
        return await asyncio.shield(answer)

    @cached_property
    def usual_pruner(self) -> Pruner:
        """The pruner of requests that give no budget; its controller, if any, knows all of them."""
        return self.rules.spec.resolve(self._resolve_model({})[1])

    def _new_pruner(self, budget: float | str) -> Pruner:
        if budget == self.rules.spec.budget:
            return self.usual_pruner
        return self.rules.spec.at(budget).resolve(self._resolve_model({})[1])

    def _budget(self, given: Any) -> float | str:
        if given is None:
            return self.rules.spec.budget or BUDGET
        try:
            budget = Budget.of(given)
            self._pruner(budget.plain)  # a pruner that cannot meet it, or a device without a profile, is told here
        except InvalidInputError as error:
            raise RequestError(str(error), param="budget") from error
        if budget.is_mean:
            raise RequestError(
                f"The budget {given} was given. A request is one prompt: give 0.3, 30%, 40ms or 0.6t.", param="budget"
            )
        return budget.plain

    def _inputs(self, model: Any, processor: Any, chat: Chat) -> dict[str, Any]:
        """The prompt as `vispco.evaluation` makes it, on the model's device. Its text is measured before its pictures."""
        longest = min(self.rules.limits.max_prompt_tokens, context_length(processor, model) or sys.maxsize)
        text = apply_template(processor, chat.turns)
        _check_length(len(processor.tokenizer(text, add_special_tokens=False)["input_ids"]), longest)
        images = load_pictures(chat, self.rules.limits)
        try:
            found = prompt_inputs(processor, chat.turns, images)
        except (ValueError, LookupError) as error:
            raise RequestError(f"The model's processor refuses the prompt: {error}", param="messages") from error
        _check_length(found["input_ids"].shape[1], longest)
        return {name: each.to(model.device) for name, each in found.items()}

    def _config(self, body: dict[str, Any], model: Any, processor: Any) -> Any:
        if body.get("max_tokens") is None and body.get("max_completion_tokens") is not None:
            body["max_tokens"] = body["max_completion_tokens"]
        try:
            if body.get("logit_bias"):
                body["logit_bias"] = {token: float(bias) for token, bias in body["logit_bias"].items()}
            config = self._build_generation_config(body, model.generation_config)
            wanted = int(config.max_new_tokens)
        except (TypeError, ValueError, AttributeError, OverflowError) as error:
            raise RequestError(f"The request's settings cannot be read: {error}") from error
        most = self.rules.limits.max_new_tokens
        if not 1 <= wanted <= most:
            raise RequestError(f"max_tokens={wanted} was given. This server gives 1 to {most}.", param="max_tokens")
        config.pad_token_id = pad_token(processor)
        return config

    def _build_completion(self, request_id: str, content: str, *args: Any, **more: Any) -> Any:
        running = self._running.get(request_id)
        if running is not None:
            content = running.shown.feed(content) + running.shown.rest()
        return super()._build_completion(request_id, content, *args, **self._at_end(request_id, more))

    def _build_chunk_sse(self, request_id: str = "", *args: Any, **more: Any) -> Any:
        running = self._running.get(request_id)
        if running is not None and more.get("content"):
            more["content"] = running.shown.feed(more["content"])
            if not more["content"]:
                return ""
        begin = ""
        if running is not None and more.get("finish_reason") and (rest := running.shown.rest()):
            begin = super()._build_chunk_sse(request_id, *args, content=rest, model=more.get("model"))
        return begin + super()._build_chunk_sse(request_id, *args, **self._at_end(request_id, more))

    def _at_end(self, request_id: str, more: dict[str, Any]) -> dict[str, Any]:
        """With the last part of an answer: what pruning gave, and whether a stop string ended it."""
        usage = more.get("usage")
        running = None if usage is None else self._running.pop(request_id, None)
        if usage is None or running is None or running.usage is None:
            return more
        self.metrics.measured(running.usage, usage.prompt_tokens, usage.completion_tokens)
        if running.written.found or running.shown.found:
            more["finish_reason"] = "stop"
        return {**more, "usage": usage.model_copy(update={"pruning": asdict(running.usage)})}


def _check_length(tokens: int, longest: int) -> None:
    if tokens > longest:
        raise RequestError(
            f"The prompt has {tokens:,} tokens or more; this server takes {longest:,} at most (--max-prompt-tokens, and "
            "the model's context). Shorten the text, or send fewer or smaller pictures.",
            param="messages",
        )


async def _until_done(parts: AsyncIterator[str]) -> AsyncIterator[str]:
    """A stream of events with the one that ends it for OpenAI's clients, also after an error."""
    async with aclosing(parts):  # type: ignore[type-var]
        async for part in parts:
            yield part
    yield "data: [DONE]\n\n"
