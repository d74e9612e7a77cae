"""`RequestError`: a refused request, in the form that OpenAI's clients read."""

import json
from typing import Any

from vispco.core.errors import VispcoError


class RequestError(VispcoError):
    """A request that cannot be answered; `status` is the HTTP status that tells so."""

    def __init__(self, message: str, status: int = 400, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.param = status, param


_KINDS = {
    401: "authentication_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}
_MAX_MESSAGE = 2000


def error_body(message: str, status: int, param: str | None = None) -> dict[str, Any]:
    """The JSON object of an error. What a request gave may stand in the message: lone surrogates, or a whole book."""
    message = message[:_MAX_MESSAGE].encode("utf-8", "backslashreplace").decode()
    kind = _KINDS.get(status, "server_error" if status >= 500 else "invalid_request_error")
    return {"error": {"message": message, "type": kind, "param": param, "code": None}}


def error_bytes(message: str, status: int) -> bytes:
    return json.dumps(error_body(message, status)).encode()
