"""OpenAI's messages to a chat and its pictures. Pictures come as base64; addresses are fetched only where allowed."""

import asyncio
import base64
import binascii
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from PIL import Image

from vispco.data.files.pictures import BrokenImageError, image_size, load_image
from vispco.serving.server.limits import ServerLimits
from vispco.serving.server.remote_pictures import FetchError, RemoteRules, fetch_picture
from vispco.serving.server.request_error import RequestError

_T = TypeVar("_T")

_ROLES = ("system", "developer", "user", "assistant")
_CHARACTERS_PER_TOKEN = 16  # above the mean of any text: longer requests are refused without being tokenized


@dataclass(frozen=True)
class Picture:
    """A picture of a request, not decoded. place: where it stands there; source: its bytes, a data: URL or an address."""

    place: str
    source: str | bytes

    def encoded(self) -> bytes:
        if isinstance(self.source, bytes):
            return self.source
        head, comma, body = self.source.partition(",")
        if not comma or not head.endswith(";base64"):
            raise RequestError(f"{self.place} must have the form data:image/png;base64,...", param=self.place)
        try:
            return base64.b64decode(body, validate=True)
        except (binascii.Error, ValueError) as error:
            raise RequestError(f"The base64 text in {self.place} is damaged: {error}.", param=self.place) from error


@dataclass(frozen=True)
class Chat:
    """turns: as chat templates take them, with {"type": "image"} where a picture stands; pictures: in that order."""

    turns: list[dict[str, Any]]
    pictures: tuple[Picture, ...]


def read_chat(messages: Any, limits: ServerLimits, remote: RemoteRules) -> Chat:
    """Check and convert; a refusal names the place of the fault. Nothing is decoded or fetched here."""
    if not isinstance(messages, list) or not messages:
        raise RequestError("`messages` must be a list with at least one message.", param="messages")
    turns: list[dict[str, Any]] = []
    pictures: list[Picture] = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if not isinstance(message, dict) or message.get("role") not in _ROLES:
            raise RequestError(f"{where} must be an object whose role is one of {', '.join(_ROLES)}.", param=where)
        role = "system" if message["role"] == "developer" else message["role"]
        parts = _parts(message.get("content"), where, remote, pictures)
        turns.append({"role": role, "content": parts})
    if turns[-1]["role"] != "user":
        raise RequestError("The last message must be the user's.", param="messages")
    if len(pictures) > limits.max_images:
        raise RequestError(
            f"The request has {len(pictures)} pictures; this server takes {limits.max_images} at most. Send fewer, or "
            "start it with a larger --max-images.",
            param="messages",
        )
    length = sum(len(part.get("text", "")) for turn in turns for part in turn["content"])
    longest = _CHARACTERS_PER_TOKEN * limits.max_prompt_tokens
    if length > longest:
        raise RequestError(
            f"The request has {length:,} characters of text; this server takes {longest:,} at most. Shorten it, or start "
            "the server with a larger --max-prompt-tokens.",
            param="messages",
        )
    return Chat(turns, tuple(pictures))


async def fetch_remote(chat: Chat, limits: ServerLimits, remote: RemoteRules) -> Chat:
    """The chat with the bytes of the pictures that it gave as addresses; all together in `fetch_seconds`."""
    pictures = list(chat.pictures)
    left = limits.body_bytes
    try:
        async with asyncio.timeout(limits.fetch_seconds):
            for number, picture in enumerate(pictures):
                place = picture.place
                if isinstance(picture.source, str) and not picture.source.startswith("data:"):
                    data = await fetch_picture(picture.source, remote, left)
                    left -= len(data)
                    pictures[number] = replace(picture, source=data)
    except FetchError as error:
        raise RequestError(f"The picture in {place} was not fetched: {error}.", param=place) from error
    except TimeoutError as error:
        raise RequestError(
            f"The picture in {place} did not arrive: {limits.fetch_seconds:g} seconds are given to all pictures of a "
            "request. Send the picture itself, or start the server with more --fetch-seconds.",
            param=place,
        ) from error
    return replace(chat, pictures=tuple(pictures))


def load_pictures(chat: Chat, limits: ServerLimits) -> list[Image.Image]:
    """All pictures, decoded once the pixels in their headers are within the limits."""
    encoded = [picture.encoded() for picture in chat.pictures]
    pixels = 0
    for picture, data in zip(chat.pictures, encoded, strict=True):
        width, height = _readable(image_size, data, picture.place)
        pixels += width * height
        if pixels > limits.pixels:
            raise RequestError(
                f"The pictures up to {picture.place} have {pixels:,} pixels; this server takes {limits.pixels:,} in a "
                "request. Scale them down, or start it with a larger --max-megapixels.",
                param=picture.place,
            )
    return [_readable(load_image, data, picture.place) for picture, data in zip(chat.pictures, encoded, strict=True)]


def check_text(text: str, place: str) -> str:
    """The text, unless it holds half a character, which JSON can say and UTF-8 cannot."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise RequestError(
            f"{place} holds half of a character (a lone surrogate, \\u{ord(text[error.start]):04x}). Send whole ones.",
            param=place,
        ) from error
    return text


def _parts(content: Any, where: str, remote: RemoteRules, pictures: list[Picture]) -> list[dict[str, Any]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": check_text(content, where)}]
    if not isinstance(content, list):
        raise RequestError(f"{where}.content must be a string or a list of parts.", param=where)
    found: list[dict[str, Any]] = []
    for number, part in enumerate(content):
        place = f"{where}.content[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            found.append({"type": "text", "text": check_text(part["text"], place)})
        elif kind == "image_url":
            address = part.get("image_url")
            address = address.get("url") if isinstance(address, dict) else address
            pictures.append(Picture(place, _source(address, place, remote)))
            found.append({"type": "image"})
        else:
            raise RequestError(
                f"{place} is of type {kind!r}. This endpoint takes parts of type text and image_url.", param=place
            )
    return found


def _source(address: Any, place: str, remote: RemoteRules) -> str:
    if not isinstance(address, str):
        raise RequestError(f"{place}.image_url.url must be a string.", param=place)
    if not address.startswith(("data:", "http://", "https://")):
        raise RequestError(
            f"{place} is neither a picture (data:image/png;base64,...) nor an http address. Files of the server are never "
            "read.",
            param=place,
        )
    if not address.startswith("data:") and not remote:
        raise RequestError(
            f"{place} is a remote address. This server fetches none (`--allow-remote-images` would allow it); send "
            "the picture itself: data:image/png;base64,...",
            param=place,
        )
    return address


def _readable(read: Callable[[bytes], _T], data: bytes, place: str) -> _T:
    try:
        return read(data)
    except BrokenImageError as error:
        raise RequestError(f"The picture in {place} cannot be read: {error}.", param=place) from error
