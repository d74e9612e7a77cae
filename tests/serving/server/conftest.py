import base64
import importlib.util
import io
import json
import os
import re
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

from vispco.data import dataset

NEEDED = ("fastapi", "uvicorn", "openai")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items):
    if MISSING:
        reason = f"{', '.join(MISSING)} not installed (pip install '.[serve]')"
        for item in items:
            if "serving" in item.path.parts:
                item.add_marker(pytest.mark.skip(reason=reason))


class Server:
    """`vispco serve` in a process of its own, on a free port."""

    def __init__(self, *options: str) -> None:
        command = [sys.executable, "-m", "vispco", "serve", "tiny-qwen", "--port", "0", "--budget", "0.5", *options]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ})
        line = self.process.stderr.readline()
        assert "http://" in line, line
        self.url = line.split("http://")[1].split("/v1")[0]
        self.url = f"http://{self.url}"
        for _ in range(600):
            try:
                self.get("/health")
                break
            except OSError:
                time.sleep(0.05)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=10) as response:  # noqa: S310
            return response.read().decode()

    def post(self, body: str, **headers: str) -> tuple[int, str]:
        """(status, answer) of a body that no client library would write."""
        request = urllib.request.Request(  # noqa: S310
            f"{self.url}/v1/chat/completions", body.encode(), {"Content-Type": "application/json", **headers}
        )
        try:
            with urllib.request.urlopen(request, timeout=30) as response:  # noqa: S310
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def open(self, content, headers: str = "", **more) -> socket.socket:
        """A connection on which a request was sent; closing it is what a client does that goes away."""
        body = json.dumps({"messages": [{"role": "user", "content": content}], "temperature": 0, **more})
        host, port = self.url.removeprefix("http://").split(":")
        client = socket.create_connection((host, int(port)), timeout=30)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\nHost: x\r\n{headers}"
        client.sendall(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        return client

    def metric(self, name: str) -> float:
        lines = [line for line in self.get("/metrics").splitlines() if line.startswith(f"vispco_{name} ")]
        return float(lines[0].split()[1])

    def answers(self, status: int) -> int:
        """How many requests ended with this status."""
        found = re.findall(rf'^vispco_requests_total{{status="{status}"}} (\d+)$', self.get("/metrics"), re.MULTILINE)
        return int(found[0]) if found else 0

    def client(self, **options):
        import openai

        return openai.OpenAI(base_url=f"{self.url}/v1", api_key="none", max_retries=0, timeout=60, **options)


def read_to_end(client: socket.socket) -> bytes:
    """All that comes on a connection until the other side closes it."""
    found = b""
    while True:
        try:
            part = client.recv(1 << 16)
        except ConnectionResetError:
            part = b""
        if not part:
            return found
        found += part


@pytest.fixture(scope="session")
def server():
    running = Server()
    yield running
    running.process.terminate()
    running.process.wait(20)


@pytest.fixture(scope="session")
def samples():
    return list(dataset("test", "all", limit=2))


def data_url(image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def messages(sample) -> list:
    shown = [{"type": "image_url", "image_url": {"url": data_url(image)}} for image in sample.images]
    return [{"role": "user", "content": [*shown, {"type": "text", "text": sample.question}]}]
