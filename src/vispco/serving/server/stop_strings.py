"""Stop strings: generation ends with the first of them, and what is shown ends before it."""

from typing import Any

import torch
from tokenizers.decoders import DecodeStream
from transformers import StoppingCriteria

from vispco.serving.server.messages import check_text
from vispco.serving.server.request_error import RequestError

_MAX_STOPS = 16
_MAX_LENGTH = 256


def read_stops(given: Any) -> tuple[str, ...]:
    """`stop` of a request."""
    stops = [given] if isinstance(given, str) else [] if given is None else given
    fits = isinstance(stops, list) and len(stops) <= _MAX_STOPS
    if not fits or not all(isinstance(stop, str) and 1 <= len(stop) <= _MAX_LENGTH for stop in stops):
        raise RequestError(
            f"stop={str(given)[:100]} was given. Give a string of 1 to {_MAX_LENGTH} characters, or a list of up to "
            f"{_MAX_STOPS} such strings.",
            param="stop",
        )
    return tuple(check_text(stop, "stop") for stop in stops)


class TextUntilStop:
    """Text that arrives in pieces, up to the first stop string; what may be the beginning of one is held back."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self.stops, self.held, self.found = stops, "", False

    def feed(self, piece: str) -> str:
        """What can be shown now that `piece` has come."""
        if self.found:
            return ""
        text = self.held + piece
        places = [(text.index(stop) + len(stop), text.index(stop)) for stop in self.stops if stop in text]
        if places:  # the one that is complete first counts, however the text was cut into pieces
            self.found, self.held = True, ""
            return text[: min(places)[1]]
        begun = [n for stop in self.stops for n in range(1, len(stop)) if text.endswith(stop[:n])]
        shown = len(text) - max(begun, default=0)
        self.held = text[shown:]
        return text[:shown]

    def rest(self) -> str:
        """What was held back, at the end of the text."""
        rest, self.held = self.held, ""
        return rest


class StopAtText(StoppingCriteria):  # type: ignore[misc]  # transformers is untyped here
    """Ends the generation of one answer when its text holds a stop string, whatever tokens it is spread over."""

    def __init__(self, text: TextUntilStop, tokenizer: Any) -> None:
        self.text, self.tokenizer = text, tokenizer._tokenizer  # noqa: SLF001 - as transformers' own server does
        self.decoder = DecodeStream([], skip_special_tokens=True)

    def __call__(self, input_ids: torch.Tensor, scores: Any, **_: Any) -> Any:  # [1, N]
        del scores
        piece = self.decoder.step(self.tokenizer, int(input_ids[0, -1]))
        self.text.feed(piece or "")
        return torch.full((1,), self.text.found, device=input_ids.device, dtype=torch.bool)
