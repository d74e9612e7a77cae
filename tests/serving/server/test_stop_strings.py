"""Answers end before the first stop string, in one piece and as a stream, and so does the work on them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("fastapi")

from vispco.serving.server.stop_strings import TextUntilStop

WORDS = st.text("ab", min_size=1, max_size=4)
REPEATED = {"frequency_penalty": -0.9}  # green green green ..., a token each


@given(st.lists(WORDS, max_size=8), st.lists(WORDS, max_size=3))
def test_text_ends_where_a_stop_string_is_first_complete(pieces, stops):
    text, shown = "".join(pieces), TextUntilStop(tuple(stops))
    found = "".join(map(shown.feed, pieces)) + shown.rest()
    for end in range(len(text) + 1):
        complete = [len(stop) for stop in stops if text[:end].endswith(stop)]
        if complete:
            assert (found, shown.found) == (text[: end - max(complete)], True)
            break
    else:
        assert (found, shown.found) == (text, False)


def ask(server, stop, *, stream, **more):
    """(text, finish_reason, number of tokens)."""
    body = {"messages": [{"role": "user", "content": "what color?"}], "temperature": 0, "stop": stop, "stream": stream}
    status, told = server.post(json.dumps(body | {"max_tokens": 8} | more))
    assert status == 200
    if not stream:
        answer = json.loads(told)
        [choice] = answer["choices"]
        return choice["message"]["content"], choice["finish_reason"], answer["usage"]["completion_tokens"]
    assert told.endswith("data: [DONE]\n\n")
    chunks = [json.loads(line.removeprefix("data: ")) for line in told.split("\n\n")[:-2]]
    text = "".join(chunk["choices"][0]["delta"].get("content", "") for chunk in chunks)
    return text, chunks[-1]["choices"][0]["finish_reason"], chunks[-1]["usage"]["completion_tokens"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("stop", "more", "expected"),
    [
        (None, {}, ("green", "stop", 2)),
        (None, REPEATED, (" ".join(["green"] * 8), "length", 8)),
        (["e"], REPEATED, ("gr", "stop", 1)),
        ("n gr", REPEATED, ("gree", "stop", 2)),  # over two tokens
        (["n green g", "x"], REPEATED, ("gree", "stop", 3)),
        (["n green green red"], REPEATED | {"max_tokens": 4}, (" ".join(["green"] * 4), "length", 4)),
        ("reen", {"max_tokens": 1}, ("g", "stop", 1)),  # with the last token that may be written
        ("greens", {}, ("green", "stop", 2)),  # held back until the end
    ],
)
def test_an_answer_ends_before_its_stop_string(server, stop, more, expected, stream):
    assert ask(server, stop, stream=stream, **more) == expected
