"""Validation of a request's settings: those that transformers would crash on, or silently ignore."""

import math
from typing import Any

from vispco.serving.server.request_error import RequestError

# Answered differently than a client would expect, if they were ignored as transformers does.
_REFUSED = ("generation_config", "tools", "functions", "function_call", "response_format", "audio", "logprobs")
_RANGES = {
    "temperature": (0.0, 2.0),
    "top_p": (0.0, 1.0),
    "frequency_penalty": (-0.9, 2.0),  # becomes a factor of 1 + penalty, which must be positive
}
_MAX_BIAS = 100.0
_SEEDS = (-(2**63), 2**64 - 1)  # torch's


def check_settings(body: dict[str, Any], vocabulary: int) -> None:
    """Refuse settings that are not served or out of range. vocabulary: the model's number of tokens."""
    refused = [name for name in _REFUSED if body.get(name) not in (None, False, [], {})]
    if refused:
        raise RequestError(f"This endpoint does not serve {', '.join(refused)}. Leave it out.", param=refused[0])
    if body.get("n") not in (None, 1):
        raise RequestError(f"n={body['n']} was given. This endpoint gives one answer.", param="n")
    if body.get("stream") not in (None, True, False):
        raise _refusal("stream", body["stream"], "true or false")
    for name, (low, high) in _RANGES.items():
        if body.get(name) is not None and not _between(body[name], low, high):
            raise _refusal(name, body[name], f"a number from {low:g} to {high:g}")
    seed = body.get("seed")
    if seed is not None and not (_between(seed, *_SEEDS) and isinstance(seed, int)):
        raise _refusal("seed", seed, "a whole number of 64 bits")
    biases = body.get("logit_bias")
    if biases is not None and not isinstance(biases, dict):
        raise _refusal("logit_bias", biases, "an object of token ids and biases")
    for token, bias in (biases or {}).items():
        known = token.isascii() and token.isdigit() and len(token) < 10 and int(token) < vocabulary
        if not known or not _between(bias, -_MAX_BIAS, _MAX_BIAS):
            raise _refusal(
                "logit_bias",
                {token: bias},
                f"token ids from 0 to {vocabulary - 1} and biases from {-_MAX_BIAS:g} to {_MAX_BIAS:g}",
            )


def _between(value: Any, low: float, high: float) -> bool:
    """Whether it is a number from `low` to `high`; NaN and infinity, which Python's JSON reads, are none."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return (isinstance(value, int) or math.isfinite(value)) and low <= value <= high


def _refusal(name: str, given: Any, allowed: str) -> RequestError:
    return RequestError(f"{name}={str(given)[:100]} was given among the settings. Give {allowed}.", param=name)
