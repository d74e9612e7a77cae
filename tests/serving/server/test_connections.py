"""Connections over real sockets, to an application without a model: nobody holds one for long, and the key comes first."""

import asyncio
import socket
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest

pytest.importorskip("uvicorn")

from serving.server.conftest import read_to_end
from vispco.serving.server.connections import build_server, listen
from vispco.serving.server.gate import Gate
from vispco.serving.server.limits import ServerLimits
from vispco.serving.server.metrics import ServerMetrics

QUICK = {"max_body": 1, "header_seconds": 0.4, "body_seconds": 0.4}
POST = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n"


@pytest.fixture(autouse=True)
def short_linger(monkeypatch):
    monkeypatch.setattr("vispco.serving.server.gate.LINGER_SECONDS", 0.3)


async def hello(scope, receive, send):
    if scope["type"] != "http":
        return
    message = await receive()
    size = 40_000_000 if scope["path"] == "/large" else len(message["body"])
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", str(size).encode())]})
    await send({"type": "http.response.body", "body": b"x" * size})


@contextmanager
def running(app=hello, key=None, **limits):
    """A server in a thread of its own, and a function that connects to it."""
    metrics, given = ServerMetrics(), ServerLimits(**QUICK | limits)
    gate = Gate(app, metrics, given, key)
    server = build_server(gate, given, "critical")
    listening = listen("127.0.0.1", 0)
    address = listening.getsockname()
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    with ExitStack() as opened:

        def connect(first=b""):
            client = opened.enter_context(socket.create_connection(address, timeout=5))
            client.sendall(first)
            return client

        connect.server, connect.metrics, connect.gate = server, metrics, gate
        yield connect
    server.should_exit = True
    thread.join(10)


def seconds_open(client):
    began = time.perf_counter()
    found = read_to_end(client)
    return time.perf_counter() - began, found


def drip(client, byte, each=0.05, most=2.0):
    """Send one byte after another until the other side closes; seconds until then."""
    began = time.perf_counter()
    while time.perf_counter() - began < most:
        try:
            client.sendall(byte)
        except OSError:
            break
        time.sleep(each)
    return time.perf_counter() - began


def test_half_open_connections_are_closed():
    with running() as connect:
        clients = [connect() for _ in range(50)] + [connect(b"POST /v1/models HT") for _ in range(50)]
        time.sleep(0.8)
        assert not connect.server.server_state.connections
        assert [read_to_end(client)[:12] for client in clients] == [b""] * 50 + [b"HTTP/1.1 408"] * 50


def test_a_header_that_drips_is_cut_off():
    with running() as connect:
        assert drip(connect(b"GET /health HTTP/1.1\r\nX: "), b"x") < 1.5


def test_a_body_that_drips_is_cut_off_with_a_sentence():
    with running() as connect:
        client = connect(POST + b"\r\n")
        threading.Thread(target=drip, args=(client, b"x"), daemon=True).start()
        seconds, found = seconds_open(client)
        assert found.startswith(b"HTTP/1.1 408")
        assert b"did not arrive in 0.4 seconds" in found
        assert seconds < 2
        time.sleep(0.1)
        assert connect.gate._held == 0


def test_a_body_that_follows_the_answer_does_not_keep_the_connection():
    """uvicorn's own timer starts anew with each byte."""
    with running() as connect:
        client = connect(b"POST /health HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n")
        assert client.recv(1 << 16).startswith(b"HTTP/1.1 200")
        assert drip(client, b"x") < 1.5


def test_a_wrong_key_is_told_before_the_body_is_read():
    with running(key="secret", body_seconds=20.0) as connect:
        clients = [connect(POST.replace(b"1000", b"900000") + b"\r\n" + b"x" * 1000) for _ in range(20)]
        began = time.perf_counter()
        assert all(b"401" in client.recv(1 << 12) for client in clients)
        assert time.perf_counter() - began < 1.5
        assert connect.gate._held == 0


def test_a_client_that_still_sends_hears_that_its_key_is_wrong():
    with running(key="secret", body_seconds=20.0) as connect:
        client = connect(POST.replace(b"1000", b"900000") + b"\r\n" + b"x" * 900_000)
        seconds, found = seconds_open(client)
        assert found.startswith(b"HTTP/1.1 401")
        assert seconds < 1.5


def test_bodies_of_all_requests_together_are_limited():
    with running(body_seconds=20.0) as connect:
        head = POST.replace(b"1000", b"1000000") + b"\r\n"
        clients = [connect(head + b"x" * 999_999) for _ in range(20)]
        time.sleep(0.3)
        assert connect.gate._held <= 17 * 2**20
        for client in clients:
            client.settimeout(0.05)
        told = [_first_bytes(client) for client in clients]
        assert 1 <= sum(found.startswith(b"HTTP/1.1 503") for found in told) <= 4


def _first_bytes(client):
    try:
        return client.recv(1 << 12)
    except TimeoutError:
        return b""


def test_a_new_connection_takes_the_place_of_the_longest_idle_one():
    with running(max_connections=10, header_seconds=20.0) as connect:
        idle = [connect() for _ in range(10)]
        time.sleep(0.1)
        late = connect(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
        assert late.recv(1 << 12).startswith(b"HTTP/1.1 200")
        assert read_to_end(idle[0]) == b""
        assert len(connect.server.server_state.connections) <= 10


def test_connections_beyond_the_limit_are_refused_where_none_is_idle():
    with running(max_connections=5, body_seconds=20.0) as connect:
        for _ in range(5):
            connect(POST + b"\r\n")
        time.sleep(0.2)
        assert read_to_end(connect(b"GET /health HTTP/1.1\r\n")).startswith(b"HTTP/1.1 503")


def test_an_answer_that_nobody_reads_is_given_up():
    with running() as connect:
        connect(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.2)
        assert len(connect.server.server_state.connections) == 1
        time.sleep(0.8)
        assert not connect.server.server_state.connections


def test_a_websocket_does_not_pass_the_gate():
    upgrade = (
        b"Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: eA==\r\n\r\n"
    )
    with running(key="secret") as connect:
        assert b"401" in connect(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n" + upgrade).recv(1 << 12)


def test_each_request_is_counted_once_by_its_status():
    with running(key="secret") as connect:
        head = b" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n"
        known = b"Authorization: Bearer secret\r\n"
        for _ in range(3):
            assert b"401" in read_to_end(connect(b"GET /v1/models" + head + b"\r\n"))
        assert b"413" in read_to_end(connect(b"POST /v1/models" + head + known + b"Content-Length: 9999999\r\n\r\n"))
        assert b"200" in read_to_end(connect(b"GET /v1/models" + head + known + b"\r\n"))
        assert b"200" in read_to_end(connect(b"GET /metrics" + head + known + b"\r\n"))
        connect(b"POST /v1/models HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n" + known + b"\r\nx").close()
        time.sleep(0.2)
        counted = [line for line in connect.metrics.text().splitlines() if line.startswith("vispco_requests_total{")]
    numbers = {"401": 3, "413": 1, "200": 1, "499": 1}
    assert counted == [f'vispco_requests_total{{status="{status}"}} {n}' for status, n in sorted(numbers.items())]


def test_a_server_that_stops_cancels_what_runs_after_the_grace():
    cancelled = threading.Event()

    async def endless(scope, receive, send):
        if scope["type"] == "http":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                cancelled.set()
                raise

    with running(endless, grace_seconds=0.3) as connect:
        client = connect(b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n")
        time.sleep(0.1)
        connect.server.should_exit = True
        seconds, found = seconds_open(client)
    assert cancelled.is_set()
    assert found.startswith(b"HTTP/1.1 503")
    assert seconds < 2
