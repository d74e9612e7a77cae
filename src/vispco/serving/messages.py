"""OpenAI's messages to a chat and its pictures. Pictures come as base64; addresses are fetched only where allowed."""

from __future__ import annotations

import base64
import binascii
import urllib.request
from dataclasses import dataclass
from typing import Any

from PIL import Image

from vispco.serving.request_error import RequestError
from vispco.sources.image import BrokenImageError, load_image

ROLES = ("system", "developer", "user", "assistant")
FETCH_SECONDS = 20.0


@dataclass(frozen=True)
class PictureRules:
    """Where pictures may come from: remote addresses (http, https) only with `remote`; files of this machine never."""

    remote: bool = False
    max_bytes: int = 20 * 2**20


@dataclass(frozen=True, eq=False)
class Chat:
    """turns: as chat templates take them, with {"type": "image"} where a picture stands; images: in that order."""

    turns: list[dict[str, Any]]
    images: tuple[Image.Image, ...]


def read_chat(messages: Any, rules: PictureRules) -> Chat:
    """Check and convert; what is wrong is told with its place."""
    if not isinstance(messages, list) or not messages:
        raise RequestError("`messages` must be a list with at least one message.", param="messages")
    turns: list[dict[str, Any]] = []
    images: list[Image.Image] = []
    for number, message in enumerate(messages):
        where = f"messages[{number}]"
        if not isinstance(message, dict) or message.get("role") not in ROLES:
            raise RequestError(f"{where} must be an object whose role is one of {', '.join(ROLES)}.", param=where)
        role = "system" if message["role"] == "developer" else message["role"]
        parts = _parts(message.get("content"), where, rules, images)
        turns.append({"role": role, "content": parts})
    if turns[-1]["role"] != "user":
        raise RequestError("The last message must be the user's.", param="messages")
    return Chat(turns, tuple(images))


def _parts(content: Any, where: str, rules: PictureRules, images: list[Image.Image]) -> list[dict[str, Any]]:
    if content is None:
        return []
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if not isinstance(content, list):
        raise RequestError(f"{where}.content must be a string or a list of parts.", param=where)
    found: list[dict[str, Any]] = []
    for number, part in enumerate(content):
        place = f"{where}.content[{number}]"
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "text" and isinstance(part.get("text"), str):
            found.append({"type": "text", "text": part["text"]})
        elif kind == "image_url":
            address = part.get("image_url")
            address = address.get("url") if isinstance(address, dict) else address
            images.append(_picture(address, place, rules))
            found.append({"type": "image"})
        else:
            raise RequestError(
                f"{place} is of type {kind!r}. This endpoint takes parts of type text and image_url.", param=place
            )
    return found


def _picture(address: Any, place: str, rules: PictureRules) -> Image.Image:
    if not isinstance(address, str):
        raise RequestError(f"{place}.image_url.url must be a string.", param=place)
    if address.startswith("data:"):
        data = _decoded(address, place)
    elif address.startswith(("http://", "https://")):
        if not rules.remote:
            raise RequestError(
                f"{place} is a remote address. This server fetches none (`--allow-remote-images` would allow it); send "
                "the picture itself: data:image/png;base64,...",
                param=place,
            )
        data = _fetched(address, place, rules.max_bytes)
    else:
        raise RequestError(
            f"{place} is neither a picture (data:image/png;base64,...) nor an http address. Files of the server are never "
            "read.",
            param=place,
        )
    try:
        return load_image(data)
    except BrokenImageError as error:
        raise RequestError(f"The picture in {place} cannot be read: {error}.", param=place) from error


def _decoded(address: str, place: str) -> bytes:
    head, comma, body = address.partition(",")
    if not comma or not head.endswith(";base64"):
        raise RequestError(f"{place} must have the form data:image/png;base64,...", param=place)
    try:
        return base64.b64decode(body, validate=True)
    except (binascii.Error, ValueError) as error:
        raise RequestError(f"The base64 text in {place} is damaged: {error}.", param=place) from error


def _fetched(address: str, place: str, max_bytes: int) -> bytes:
    """The bytes at an address; redirects are followed to http and https only, as urllib does."""
    try:
        with urllib.request.urlopen(address, timeout=FETCH_SECONDS) as response:  # noqa: S310 - http and https only
            data: bytes = response.read(max_bytes + 1)
    except (OSError, ValueError) as error:
        raise RequestError(f"The picture in {place} could not be fetched: {error}.", param=place) from error
    if len(data) > max_bytes:
        raise RequestError(f"The picture in {place} has more than {max_bytes:,} bytes.", param=place)
    return data
