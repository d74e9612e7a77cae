"""Bad requests get a sentence, dead clients free their place, and the server goes on."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from PIL import Image

from serving.server.conftest import data_url, messages

LONG = """
import openai, sys
client = openai.OpenAI(base_url=sys.argv[1] + "/v1", api_key="none", max_retries=0)
stream = sys.argv[2] == "stream"
ends = {str(token): -100 for token in map(int, sys.argv[3].split(","))}
answer = client.chat.completions.create(
    model="tiny-qwen", messages=[{"role": "user", "content": "what color?"}], max_tokens=3000, logit_bias=ends,
    temperature=0, stream=stream,
)
for part in answer:
    print("part", flush=True)
"""


@pytest.fixture
def well(server, samples):
    """The server answers after the test as it did before."""

    def answer():
        told = server.client().chat.completions.create(
            model="tiny-qwen", messages=messages(samples[0]), temperature=0, max_tokens=4
        )
        return told.choices[0].message.content

    before = answer()
    yield
    assert answer() == before
    assert server.metric("requests_waiting") == 0


def refused(server, status, *told, content=None, **more):
    import openai

    given = {"model": "tiny-qwen", "max_tokens": 4, "messages": [{"role": "user", "content": content or "hello"}]}
    with pytest.raises(openai.APIStatusError) as caught:
        server.client().chat.completions.create(**given | more)
    assert caught.value.status_code == status
    for part in told:
        assert part in str(caught.value)


@pytest.mark.parametrize("mode", ["stream", "whole"])
def test_a_killed_client_frees_its_place_long_before_its_answer_is_written(server, well, mode):
    import vispco
    from vispco.evaluation.encoded import end_tokens

    ends = ",".join(map(str, end_tokens(*vispco.load("tiny-qwen"))))
    before = server.answers(499)
    command = [sys.executable, "-c", LONG, server.url, mode, ends]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        if mode == "stream":
            assert [client.stdout.readline() for _ in range(3)] == ["part\n"] * 3
        else:
            while server.metric("requests_waiting") == 0 and client.poll() is None:
                time.sleep(0.05)
            time.sleep(0.2)
        os.kill(client.pid, signal.SIGKILL)
    killed = time.perf_counter()
    while server.metric("requests_waiting") > 0:
        assert time.perf_counter() - killed < 5
        time.sleep(0.02)
    assert server.answers(499) == before + 1


def test_a_truncated_picture_is_named(server, well, samples):
    whole = data_url(samples[0].images[0])
    content = [{"type": "image_url", "image_url": {"url": whole[: len(whole) // 8 * 4 + 2]}}]
    refused(server, 400, "messages[0].content[0]", "cannot be read", content=content)


def test_damaged_base64_is_named(server, well):
    content = [{"type": "image_url", "image_url": {"url": "data:image/png;base64,@@@"}}]
    refused(server, 400, "base64", content=content)


def test_a_body_of_50_mb_is_refused(server, well):
    refused(server, 413, "at most", content="x" * 50_000_000)


@pytest.mark.parametrize("budget", ["lots", 0, 1.5, True, [0.5]])
def test_an_unknown_budget_is_refused(server, well, budget):
    refused(server, 400, "fraction of the unpruned FLOPs", extra_body={"budget": budget})


@pytest.mark.parametrize("address", ["http://127.0.0.1:1/x.png", "file:///etc/passwd", "/etc/passwd"])
def test_no_address_is_fetched_and_no_file_is_read(server, well, address):
    refused(server, 400, content=[{"type": "image_url", "image_url": {"url": address}}])


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({"model": "another"}, "pinned"),
        ({"n": 2}, "one answer"),
        ({"max_tokens": 10**9}, "max_tokens"),
        ({"messages": []}, "messages"),
        ({"messages": [{"role": "robot", "content": "x"}]}, "role"),
        ({"content": [{"type": "input_audio", "input_audio": {}}]}, "text and image_url"),
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "tools"),
        ({"temperature": "hot"}, "settings"),
        ({"temperature": -1}, "temperature"),
        ({"top_p": 5}, "from 0 to 1"),
        ({"frequency_penalty": -1}, "frequency_penalty"),
        ({"seed": 2**70}, "64 bits"),
        ({"stop": 5}, "stop"),
        ({"stop": ["", "x"]}, "1 to 256"),
        ({"logit_bias": {"100000": 1}}, "token ids from 0"),
        ({"logit_bias": {"5": 1000}}, "biases from -100"),
        ({"extra_body": {"budget": 10**400}}, "budget"),
    ],
)
def test_what_is_not_served_is_told(server, well, more, told):
    refused(server, 400, told, **more)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("{", "cannot be read"),
        ("[" * 100_000, "body"),
        ('{"messages": [{"role": "user", "content": "half \\ud800"}]}', "messages[0] holds half of a character"),
        ('{"model": "\\ud800"}', "pinned"),
        ('{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}', "from 0 to 2"),
        ('{"messages": [{"role": "user", "content": "x"}], "max_tokens": Infinity}', "settings"),
    ],
)
def test_what_no_json_library_of_a_client_writes_is_refused(server, well, body, told):
    status, answer = server.post(body)
    assert status == 400
    assert told in json.loads(answer)["error"]["message"]


@pytest.mark.parametrize("size", [(1, 4000), (4000, 10)])
def test_a_picture_that_the_processor_refuses_is_told(server, well, size):
    content = [{"type": "image_url", "image_url": {"url": data_url(Image.new("RGB", size))}}]
    refused(server, 400, "aspect ratio", content=content)


def test_a_refusal_is_counted_once_and_as_no_failure(server, well):
    before = server.answers(400), server.metric("failures_total")
    broken = [{"type": "image_url", "image_url": {"url": data_url(Image.new("RGB", (8, 8)))[:-40]}}]
    for more in ({"content": broken}, {"stop": 5}, {"messages": []}):
        refused(server, 400, **more)
    assert (server.answers(400), server.metric("failures_total")) == (before[0] + 3, before[1])


def test_requests_that_wait_end_with_their_clients_and_are_not_started(server, well):
    """One long answer is written and eleven wait for it: as soon as their clients are gone, so are they."""
    import vispco
    from vispco.evaluation.encoded import end_tokens

    ends = {str(token): -100 for token in end_tokens(*vispco.load("tiny-qwen"))}
    first, *others = [server.open(content="what color?", max_tokens=3000, logit_bias=ends) for _ in range(12)]
    wait(lambda: server.metric("requests_waiting") == 12)
    for client in others:
        client.close()
    wait(lambda: server.metric("requests_waiting") <= 4)  # those that the model's queue holds already
    assert server.metric("requests_waiting") > 0
    first.close()
    wait(lambda: server.metric("requests_waiting") == 0)


def wait(condition, seconds=5):
    began = time.perf_counter()
    while not condition():
        assert time.perf_counter() - began < seconds
        time.sleep(0.02)


def test_routes_that_could_unload_the_model_are_closed(server, well):
    import urllib.error
    import urllib.request

    for path in ("/reset", "/load_model", "/v1/responses"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(f"{server.url}{path}", data=b"{}")  # noqa: S310
        assert caught.value.code == 404
