"""The gate alone: key, size and the number of requests, without a model."""

import asyncio
import json

import pytest

from vispco.serving.server.gate import CLIENT_GONE, Gate
from vispco.serving.server.limits import ServerLimits
from vispco.serving.server.metrics import ServerMetrics


async def echo(scope, receive, send):
    message = await receive()
    body = json.dumps({"length": len(message["body"]), "gone": CLIENT_GONE.get().is_set()}).encode()
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": body})


def call(gate, *bodies, path="/v1/models", headers=()):
    """(status, body) of one request whose body arrives in parts."""
    sent = []
    parts = [{"type": "http.request", "body": b, "more_body": n < len(bodies) - 1} for n, b in enumerate(bodies)]

    async def receive():
        if parts:
            return parts.pop(0)
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(message):
        sent.append(message)

    scope = {"type": "http", "path": path, "headers": list(headers)}
    asyncio.run(gate(scope, receive, send))
    return sent[0]["status"], json.loads(sent[1]["body"])


def test_a_body_in_parts_arrives_whole():
    gate = Gate(echo, ServerMetrics(), ServerLimits(max_body=1))
    assert call(gate, b"a" * 2**19, b"b" * 2**19) == (200, {"length": 2**20, "gone": False})


def test_a_body_is_measured_as_it_arrives_and_as_it_is_announced():
    gate = Gate(echo, ServerMetrics(), ServerLimits(max_body=1))
    assert call(gate, b"a" * 2**19, b"b" * (2**19 + 1))[0] == 413
    status, told = call(gate, b"", headers=[(b"content-length", b"100000000")])
    assert status == 413
    assert "100,000,000 bytes" in told["error"]["message"]


@pytest.mark.parametrize("header", [(), [(b"authorization", b"Bearer wrong")], [(b"authorization", b"secret")]])
def test_without_the_key_nothing_is_served(header):
    gate = Gate(echo, ServerMetrics(), ServerLimits(), key="secret")
    assert call(gate, b"", headers=header)[0] == 401
    assert call(gate, b"", headers=header, path="/metrics")[0] == 401
    assert call(gate, b"", headers=header, path="/health")[0] == 200
    assert call(gate, b"", headers=[(b"authorization", b"Bearer secret")])[0] == 200


def test_places_are_given_back_once():
    metrics = ServerMetrics()
    assert [metrics.enter(2) for _ in range(3)] == [True, True, False]
    metrics.leave()
    assert metrics.enter(2)
    assert "vispco_requests_waiting 2" in metrics.text()
