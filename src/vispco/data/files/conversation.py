"""A conversation as datasets write it, as turns of one instruction and one answer each."""

from __future__ import annotations

from typing import Any

from vispco.data.files.record import Turn

PLACEHOLDER, VIDEO_PLACEHOLDER = "<image>", "<video>"
SHOWN = {"image": PLACEHOLDER, "image_url": PLACEHOLDER, "video": VIDEO_PLACEHOLDER, "video_url": VIDEO_PLACEHOLDER}
ASKING = {"human", "user", "question"}
ANSWERING = {"gpt", "assistant", "model", "answer"}


class ConversationError(ValueError):
    """The conversation does not alternate, lacks its answers, or does not fit its images."""


def parse_conversation(messages: Any, images: int, placeholder: str = PLACEHOLDER) -> tuple[Turn, ...]:
    """Turns from `{"from", "value"}`, `{"role", "content"}` or `{"user", "assistant"}` entries.

    `images` is how many pictures the record has; a video is one, with a placeholder of its own. If no placeholder says where
    they go, they stand before the first instruction. An instruction at the end that nobody answers is left out.
    """
    if not isinstance(messages, list) or not messages:
        raise ConversationError(f"conversations is {brief(messages)}; it must be a list of messages")
    turns: list[Turn] = []
    asked: str | None = None
    for number, (role, text) in enumerate(message for entry in messages for message in flatten(entry)):
        if role == "system" and number == 0:
            continue
        if role in ASKING and asked is None:
            asked = text
        elif role in ANSWERING and asked is not None:
            if not text.strip():
                raise ConversationError(f"the answer in message {number + 1} is empty")
            turns.append(make_turn(asked, text, placeholder))
            asked = None
        else:
            raise ConversationError(
                f"message {number + 1} is from {role!r}; instructions (human, user) and answers (gpt, assistant) "
                "must alternate, an instruction first"
            )
    if not turns:
        raise ConversationError("no instruction in it has an answer")
    return place_images(turns, images)


def make_turn(asked: str, answer: str, placeholder: str = PLACEHOLDER) -> Turn:
    """Takes the placeholders out of an instruction and remembers where they stood."""
    if placeholder not in asked:
        return Turn(asked, answer.strip())
    parts = asked.split(placeholder)
    # LLaVA writes "<image>\n" before or "\n<image>" after the text; those line breaks belong to the placeholder.
    parts = [part.lstrip("\n") if i and not "".join(parts[:i]).strip() else part for i, part in enumerate(parts)]
    parts = [part.rstrip("\n") if not "".join(parts[i + 1 :]).strip() else part for i, part in enumerate(parts)]
    places, text = [], parts[0]
    for part in parts[1:]:
        places.append(len(text))
        text += part
    return Turn(text, answer.strip(), tuple(places))


def place_images(turns: list[Turn], images: int) -> tuple[Turn, ...]:
    placed = sum(len(turn.image_at) for turn in turns)
    if placed == 0 and images:
        first = turns[0]
        return (Turn(first.instruction, first.answer, (0,) * images), *turns[1:])
    if placed != images:
        raise ConversationError(f"it has {placed} {PLACEHOLDER} placeholders but {images} images")
    return tuple(turns)


def flatten(entry: Any) -> list[tuple[str, str]]:
    """(role, text) pairs of one entry."""
    if not isinstance(entry, dict):
        raise ConversationError(f"a message is {brief(entry)}; it must be an object with 'from' and 'value'")
    if "user" in entry and "assistant" in entry:
        return [("user", as_text(entry["user"])), ("assistant", as_text(entry["assistant"]))]
    role, text = entry.get("from", entry.get("role")), entry.get("value", entry.get("content"))
    if not isinstance(role, str):
        raise ConversationError(f"a message has no 'from' (its keys: {', '.join(map(str, entry)) or 'none'})")
    return [(role.lower(), as_text(text))]


def as_text(value: Any) -> str:
    """Text, or a list of parts as chat templates have it: `[{"type": "image"}, {"type": "text", "text": ...}]`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [entry if isinstance(entry, dict) else {"type": "text", "text": entry} for entry in value]
        return "".join(SHOWN.get(str(part.get("type"))) or as_text(part.get("text")) for part in parts)
    raise ConversationError(f"a message's text is {brief(value)}; it must be a string")


def brief(value: Any) -> str:
    """How a wrong value is named in a sentence."""
    if value is None:
        return "missing"
    shown = repr(value)
    return f"{type(value).__name__} {shown[:40]}{'…' if len(shown) > 40 else ''}"
