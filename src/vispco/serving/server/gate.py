"""The gate before the server: the key, the size of a body, the time it takes, and whether the client is still there."""

from __future__ import annotations

import asyncio
import hmac
import threading
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from functools import partial
from typing import Any

from vispco.serving.server.limits import ServerLimits
from vispco.serving.server.metrics import ServerMetrics
from vispco.serving.server.request_error import RequestError, error_bytes

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

CLIENT_GONE: ContextVar[threading.Event] = ContextVar("CLIENT_GONE")
"""Set when the client of the request in this context has closed its connection, or the server stops."""

_OPEN_PATHS = ("/health",)
LINGER_SECONDS = 2.0  # time to discard what a refused client still sends: cut off at once, it might not read the answer
_BODIES_HELD = 16  # all requests together hold at most this many of the largest body
_CLIENT_CLOSED = 499  # the status under which a request is counted whose client did not wait for the answer
_NO_KEY = "The key is missing or wrong. Send it as `Authorization: Bearer KEY` (api_key of the client)."


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app: App, metrics: ServerMetrics, limits: ServerLimits, key: str | None = None) -> None:
        self.app, self.metrics, self.limits, self.key = app, metrics, limits, key
        self._held = 0  # bytes of bodies

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, partial(self._lifespan, receive), send)
            return
        exchange = _Exchange(receive, send)
        if scope["path"].startswith("/v1/"):
            exchange.on_end = self.metrics.ended
        headers = {name.lower(): value for name, value in scope["headers"]}
        body = bytearray()
        try:
            if scope["path"] not in _OPEN_PATHS:
                await self._read(headers, exchange, body)
            await self._pass_on(scope, body, exchange)
        except RequestError as error:
            self._release(body)
            await exchange.refuse(error)
        except _ClientGoneError:
            pass
        finally:
            self._release(body)
            exchange.end(_CLIENT_CLOSED)

    async def _lifespan(self, receive: Receive) -> Message:
        """The server's own events. When it stops, answers that were cancelled are given time to reach their next token."""
        message = await receive()
        for _ in range(100 if message["type"] == "lifespan.shutdown" else 0):
            if self.metrics.waiting:
                await asyncio.sleep(0.02)
        return message

    async def _read(self, headers: dict[bytes, bytes], exchange: _Exchange, body: bytearray) -> None:
        """Check the key, and fill `body`, which is counted among what all requests hold."""
        key = headers.get(b"authorization", b"")
        if self.key is not None and not hmac.compare_digest(key, f"Bearer {self.key}".encode()):
            raise RequestError(_NO_KEY, status=401)
        announced = headers.get(b"content-length", b"0")
        self._check_size(int(announced) if announced.isdigit() else 0)
        try:
            async with asyncio.timeout(self.limits.body_seconds):
                while exchange.more_body:
                    message = await exchange.receive()
                    if message["type"] == "http.disconnect":
                        raise _ClientGoneError
                    part = message.get("body", b"")
                    self._held += len(part)
                    body += part
                    self._check_size(len(body))
        except TimeoutError as error:
            raise RequestError(
                f"The request's body did not arrive in {self.limits.body_seconds:g} seconds. Send smaller pictures, or "
                "start the server with more --body-seconds.",
                status=408,
            ) from error

    def _check_size(self, size: int) -> None:
        most = self.limits.body_bytes
        if size > most:
            raise RequestError(
                f"The request has {size:,} bytes; this server takes {most:,} at most. Send smaller pictures, or start it "
                "with a larger --max-body.",
                status=413,
            )
        if self._held > _BODIES_HELD * most:
            raise RequestError("The server holds as many bytes of requests as it may. Try again later.", status=503)

    def _release(self, body: bytearray) -> None:
        self._held -= len(body)
        body.clear()

    async def _pass_on(self, scope: MutableMapping[str, Any], body: bytearray, exchange: _Exchange) -> None:
        """Run the application on a body that is complete. A client that goes away cancels its request."""
        gone = threading.Event()
        messages: Iterator[Message] = iter([{"type": "http.request", "body": bytes(body), "more_body": False}])

        async def replay() -> Message:
            return next(messages, {}) or await asyncio.Future()

        async def watch() -> None:
            while (await exchange.receive())["type"] != "http.disconnect":
                pass
            if not exchange.answered:
                gone.set()
                request.cancel()

        token = CLIENT_GONE.set(gone)
        request = asyncio.ensure_future(self.app(scope, replay, exchange.send))
        CLIENT_GONE.reset(token)
        watcher = asyncio.create_task(watch())
        try:
            await request
        except asyncio.CancelledError:
            stopping = not gone.is_set()
            gone.set()
            if stopping and exchange.status is None:
                raise RequestError("The server is stopping. Try again later.", status=503) from None
        finally:
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher


class _ClientGoneError(Exception):
    """The connection was closed before the request was complete."""


class _Exchange:
    """A request and its answer. more_body: some of the body is still to come; status: of the answer, once it begins.

    on_end: called once, with the status of the end.
    """

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive, self._send = receive, send
        self.more_body, self.answered = True, False
        self.status: int | None = None
        self.on_end: Callable[[int], None] = lambda _: None

    async def receive(self) -> Message:
        message = await self._receive()
        self.more_body = message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        elif message["type"] == "http.response.body" and not message.get("more_body", False):
            self.end(self.status or _CLIENT_CLOSED)
        await self._send(message)

    def end(self, status: int) -> None:
        if not self.answered:
            self.answered = True
            self.on_end(status)

    async def refuse(self, error: RequestError) -> None:
        """Answer at once, then throw away for a moment what the client still sends, and close the connection."""
        body = error_bytes(str(error), error.status)
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
            (b"connection", b"close"),
        ]
        self.end(error.status)
        await self.send({"type": "http.response.start", "status": error.status, "headers": headers})
        await self.send({"type": "http.response.body", "body": body, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER_SECONDS):
                while self.more_body:
                    await self.receive()
        await self.send({"type": "http.response.body", "body": b""})
