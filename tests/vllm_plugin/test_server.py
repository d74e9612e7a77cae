"""vLLM's server with the arguments of `vispco vllm-args`, asked by the official client."""

import base64
import io
import os
import socket
import subprocess
import sys
import time
import urllib.request

import pytest

from vispco import models as zoo
from vispco.data import TASKS, dataset
from vispco.vllm import arguments

ITEMS = 32
DEFAULT = 0.5


def picture_url(image) -> str:
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"


@pytest.fixture(scope="module")
def client():
    import openai

    from vllm_plugin.pairs import ENVIRONMENT

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    folder = str(zoo.path("tiny-qwen3"))
    given = arguments("tiny-qwen3", "divprune", keep=DEFAULT, max_keep=1.0)
    command = [
        sys.executable,
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        folder,
        "--port",
        str(port),
        *given,
    ]
    command += [
        "--dtype",
        "float32",
        "--max-model-len",
        "512",
        "--max-num-seqs",
        "32",
        "--served-model-name",
        "m",
        "--host",
        "127.0.0.1",
    ]
    command += ["--trust-request-mm-kwargs"]  # the operator's own decision
    environment = {**os.environ, **ENVIRONMENT, "VLLM_ENABLE_V1_MULTIPROCESSING": "1"}
    server = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"
    try:
        for _ in range(600):
            assert server.poll() is None, server.stderr.read()[-3000:]
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2)  # noqa: S310
                break
            except OSError:
                time.sleep(0.5)
        yield openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=120)
    finally:
        server.terminate()
        server.wait(60)


def ask(client, sample, **extra):
    content = [
        {"type": "image_url", "image_url": {"url": picture_url(sample.images[0])}},
        {"type": "text", "text": sample.question},
    ]
    found = client.chat.completions.create(
        model="m", messages=[{"role": "user", "content": content}], temperature=0, max_tokens=6, extra_body=extra
    )
    return found.choices[0].message.content, found.usage.prompt_tokens


def test_the_official_client_gets_the_answers_of_transformers(client):
    from vllm_plugin.pairs import Reference, Request

    reference = Reference("tiny-qwen3", "divprune")
    samples = [sample for task in TASKS for sample in dataset("test", task, ITEMS // len(TASKS))]
    assert len(samples) >= ITEMS
    tokens = {}
    for share, extra in ((1.0, {"vispco_keep": 1.0}), (DEFAULT, None), (0.25, {"image_pruning_rate": 0.75})):
        found = [ask(client, s, **({} if extra is None else {"mm_processor_kwargs": extra})) for s in samples]
        expected = [reference(Request(tuple(s.images), s.question, share)).tokens for s in samples]
        written = reference.processor.batch_decode(expected, skip_special_tokens=True)
        assert [text.strip() for text, _ in found] == [text.strip() for text in written]
        tokens[share] = sum(number for _, number in found)
    assert tokens[1.0] > tokens[DEFAULT] > tokens[0.25]


@pytest.mark.parametrize("share", [0, 1.5, "x", -1])
def test_a_bad_share_is_a_400_and_the_server_lives_on(client, share):
    import openai

    sample = next(iter(dataset("test", "attribute", 1)))
    with pytest.raises(openai.BadRequestError, match="share of a picture's tokens"):
        ask(client, sample, mm_processor_kwargs={"vispco_keep": share})
    assert ask(client, sample)[0]
