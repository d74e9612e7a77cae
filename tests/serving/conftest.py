import base64
import importlib.util
import io
import os
import re
import subprocess
import sys
import time
import urllib.request

import pytest

from vispco.data import dataset

NEEDED = ("fastapi", "uvicorn", "openai")
MISSING = [name for name in NEEDED if importlib.util.find_spec(name) is None]


def pytest_collection_modifyitems(items):
    if MISSING:
        reason = f"{', '.join(MISSING)} not installed (pip install 'vispco[serve]')"
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
