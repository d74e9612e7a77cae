"""uvicorn's connections with limits that uvicorn does not have: their number, slow headers, and answers nobody reads."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from vispco.core.errors import InvalidInputError
from vispco.serving.server.limits import ServerLimits
from vispco.serving.server.request_error import error_bytes

_PHRASES = {408: "Request Timeout", 503: "Service Unavailable"}


class _LimitedConnection(H11Protocol):  # type: ignore[misc]  # uvicorn is untyped here
    """A connection that is closed where no request begins in time, or where its client stops reading.

    uvicorn times a connection only between two requests, and starts that clock anew with each byte. Where all connections
    are taken, the one that has waited longest for a request makes room; `limit_concurrency` of uvicorn would refuse
    everybody as long as half-open connections are there.
    """

    def __init__(self, limits: ServerLimits, **given: Any) -> None:
        super().__init__(**given)
        self.limits = limits
        self.idle_timer: asyncio.TimerHandle | None = None
        self.unread_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._await_request()
        if len(self.connections) > self.limits.max_connections:
            idle = [each for each in self.connections if each is not self and each.idle_timer is not None]
            if idle:
                min(idle, key=lambda each: each.idle_timer.when()).close_idle()
            else:
                self._refuse(503, f"{self.limits.max_connections} connections are open already. Try again later.")

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_timers()
        super().connection_lost(exc)

    def handle_events(self) -> None:
        before = self.cycle
        super().handle_events()
        if self.cycle is not before:  # the headers of a request are complete
            self._stop_timers()

    def on_response_complete(self) -> None:
        self._await_request()
        super().on_response_complete()

    def pause_writing(self) -> None:
        super().pause_writing()
        self.unread_timer = self.loop.call_later(self.limits.body_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self.unread_timer is not None:
            self.unread_timer.cancel()

    def close_idle(self) -> None:
        """Close a connection on which no request has begun; a client that has sent a part of one gets the reason."""
        if self.conn.trailing_data[0]:
            seconds = self.limits.header_seconds
            self._refuse(
                408, f"The request's headers did not arrive in {seconds:g} seconds, or others needed the place."
            )
        else:
            self._stop_timers()
            self.connections.discard(self)
            self.transport.abort()

    def _await_request(self) -> None:
        self._stop_timers()
        self.idle_timer = self.loop.call_later(self.limits.header_seconds, self.close_idle)

    def _stop_timers(self) -> None:
        for timer in (self.idle_timer, self.unread_timer):
            if timer is not None:
                timer.cancel()
        self.idle_timer = self.unread_timer = None

    def _refuse(self, status: int, sentence: str) -> None:
        self._stop_timers()
        self.connections.discard(self)
        body = error_bytes(sentence, status)
        head = f"HTTP/1.1 {status} {_PHRASES[status]}\r\ncontent-type: application/json\r\nconnection: close\r\n"
        self.transport.write(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body)
        self.transport.close()


def build_server(app: Callable[..., Any], limits: ServerLimits, log_level: str) -> uvicorn.Server:
    """A server whose connections keep to the limits. There are no WebSockets, which would escape them.

    `run(sockets=[...])` serves until a signal comes, and then for the seconds of grace that running answers have.
    """
    config = uvicorn.Config(
        app,
        http=partial(_LimitedConnection, limits),
        ws="none",
        log_level=log_level,
        timeout_graceful_shutdown=limits.grace_seconds,
    )
    return uvicorn.Server(config)


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
