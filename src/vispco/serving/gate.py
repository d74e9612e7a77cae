"""The gate before the server: the key, the size of a body, and whether the client is still there."""

from __future__ import annotations

import asyncio
import hmac
import threading
from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import suppress
from contextvars import ContextVar
from typing import Any

from vispco.serving.metrics import ServerMetrics
from vispco.serving.request_error import error_bytes

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

CLIENT_GONE: ContextVar[threading.Event] = ContextVar("CLIENT_GONE")
"""Set when the client of the request in this context has closed its connection."""

OPEN_PATHS = ("/health",)
READ_ON = 16  # so many times the limit are read and thrown away, so that a client that still sends hears why


class Gate:
    """ASGI middleware around the whole application."""

    def __init__(self, app: App, metrics: ServerMetrics, max_bytes: int, key: str | None = None) -> None:
        self.app, self.metrics, self.max_bytes, self.key = app, metrics, max_bytes, key

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and scope["path"].startswith("/v1/"):
                self.metrics.answered(message["status"])
            await send(message)

        headers = {name.lower(): value for name, value in scope["headers"]}
        body, refusal = await self._read(headers, receive)
        if not self._allowed(scope["path"], headers):
            refusal = (
                401,
                "The key is missing or wrong. Send it as `Authorization: Bearer KEY` (api_key of the client).",
            )
        if refusal is not None:
            await _refuse(counted, *refusal)
        elif body is not None:
            await self._pass_on(scope, body, receive, counted)

    def _allowed(self, path: str, headers: dict[bytes, bytes]) -> bool:
        if self.key is None or path in OPEN_PATHS:
            return True
        return hmac.compare_digest(headers.get(b"authorization", b""), f"Bearer {self.key}".encode())

    async def _read(self, headers: dict[bytes, bytes], receive: Receive) -> tuple[bytes | None, tuple[int, str] | None]:
        """The body, or a refusal; both None where the client is gone."""
        parts: list[bytes] = []
        size = 0
        announced = headers.get(b"content-length", b"0")
        wanted = int(announced) if announced.isdigit() else 0
        while wanted <= READ_ON * self.max_bytes and size <= READ_ON * self.max_bytes:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None, None
            size += len(message.get("body", b""))
            if size <= self.max_bytes:
                parts.append(message.get("body", b""))
            else:
                parts.clear()
            if not message.get("more_body", False):
                break
        if max(size, wanted) > self.max_bytes:
            sentence = (
                f"The request has {max(size, wanted):,} bytes; this server takes {self.max_bytes:,} at most. Send smaller "
                "pictures, or start it with a larger --max-body."
            )
            return None, (413, sentence)
        return b"".join(parts), None

    async def _pass_on(self, scope: MutableMapping[str, Any], body: bytes, receive: Receive, send: Send) -> None:
        gone, left = threading.Event(), asyncio.Event()
        token = CLIENT_GONE.set(gone)

        async def watch() -> None:
            while (await receive())["type"] != "http.disconnect":
                pass
            gone.set()
            left.set()

        handed = False

        async def replay() -> Message:
            nonlocal handed
            if not handed:
                handed = True
                return {"type": "http.request", "body": body, "more_body": False}
            await left.wait()
            return {"type": "http.disconnect"}

        watcher = asyncio.create_task(watch())
        try:
            await self.app(scope, replay, send)
        finally:
            CLIENT_GONE.reset(token)
            watcher.cancel()
            with suppress(asyncio.CancelledError):
                await watcher


async def _refuse(send: Send, status: int, sentence: str) -> None:
    body = error_bytes(sentence, status)
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    if status == 413:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
