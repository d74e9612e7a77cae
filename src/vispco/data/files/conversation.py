"""One item of a dataset as a record: its pictures or video frames, and its question or conversation as turns.

A video is a folder of frames, in the order of their names, or a list of frame files. Video files themselves are not
decoded: that needs a decoder, which vispco does not depend on, and a choice of frames, which is the user's.
"""

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from string import ascii_uppercase
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.data.files.pictures import ImageHandle, OutsideError, find_image
from vispco.data.files.record import InputLimits, Record, Skipped, Turn

_PLACEHOLDER, _VIDEO_PLACEHOLDER = "<image>", "<video>"
_SHOWN = {
    "image": _PLACEHOLDER,
    "image_url": _PLACEHOLDER,
    "video": _VIDEO_PLACEHOLDER,
    "video_url": _VIDEO_PLACEHOLDER,
}
# The names that a field may have, the likeliest first; ChartQA has imgname, query and label.
FIELDS: dict[str, tuple[str, ...]] = {
    "image": ("image", "images", "image_path", "imgname", "file_name", "img", "picture"),
    "question": ("question", "query", "instruction", "prompt", "problem"),
    "answer": ("answer", "answers", "label", "response", "output", "solution"),
    "conversations": ("conversations", "messages", "texts", "conversation"),
    "options": ("options", "choices"),
    "id": ("id", "question_id", "index", "idx", "uid"),
}
_OTHER_FIELDS = {"id", "task", "video", "fps", "hint"}
_ASKING = {"human", "user", "question"}
_ANSWERING = {"gpt", "assistant", "model", "answer"}


class _ConversationError(ValueError):
    """The conversation does not alternate, lacks its answers, or does not fit its images."""


def _parse_conversation(messages: Any, images: int, placeholder: str = _PLACEHOLDER) -> tuple[Turn, ...]:
    """Turns from `{"from", "value"}`, `{"role", "content"}` or `{"user", "assistant"}` entries.

    `images` is how many pictures the record has; a video is one, with a placeholder of its own. If no placeholder says where
    they go, they stand before the first instruction. An instruction at the end that nobody answers is left out.
    """
    if not isinstance(messages, list) or not messages:
        raise _ConversationError(f"conversations is {brief(messages)}; it must be a list of messages")
    turns: list[Turn] = []
    asked: str | None = None
    for number, (role, text) in enumerate(message for entry in messages for message in _flatten(entry)):
        if role == "system" and number == 0:
            continue
        if role in _ASKING and asked is None:
            asked = text
        elif role in _ANSWERING and asked is not None:
            if not text.strip():
                raise _ConversationError(f"the answer in message {number + 1} is empty")
            turns.append(_make_turn(asked, text, placeholder))
            asked = None
        else:
            raise _ConversationError(
                f"message {number + 1} is from {role!r}; instructions (human, user) and answers (gpt, assistant) "
                "must alternate, an instruction first"
            )
    if not turns:
        raise _ConversationError("no instruction in it has an answer")
    return _place_images(turns, images)


def _make_turn(asked: str, answer: str, placeholder: str = _PLACEHOLDER) -> Turn:
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


def _place_images(turns: list[Turn], images: int) -> tuple[Turn, ...]:
    placed = sum(len(turn.image_at) for turn in turns)
    if placed == 0 and images:
        first = turns[0]
        return (Turn(first.instruction, first.answer, (0,) * images), *turns[1:])
    if placed != images:
        raise _ConversationError(f"it has {placed} {_PLACEHOLDER} placeholders but {images} images")
    return tuple(turns)


def _flatten(entry: Any) -> list[tuple[str, str]]:
    """(role, text) pairs of one entry."""
    if not isinstance(entry, dict):
        raise _ConversationError(f"a message is {brief(entry)}; it must be an object with 'from' and 'value'")
    if "user" in entry and "assistant" in entry:
        return [("user", _as_text(entry["user"])), ("assistant", _as_text(entry["assistant"]))]
    role, text = entry.get("from", entry.get("role")), entry.get("value", entry.get("content"))
    if not isinstance(role, str):
        raise _ConversationError(f"a message has no 'from' (its keys: {', '.join(map(str, entry)) or 'none'})")
    return [(role.lower(), _as_text(text))]


def _as_text(value: Any) -> str:
    """Text, or a list of parts as chat templates have it: `[{"type": "image"}, {"type": "text", "text": ...}]`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        parts = [entry if isinstance(entry, dict) else {"type": "text", "text": entry} for entry in value]
        return "".join(_SHOWN.get(str(part.get("type"))) or _as_text(part.get("text")) for part in parts)
    raise _ConversationError(f"a message's text is {brief(value)}; it must be a string")


def brief(value: Any) -> str:
    """A wrong value as a sentence names it."""
    if value is None:
        return "missing"
    shown = repr(value)
    return f"{type(value).__name__} {shown[:40]}{'…' if len(shown) > 40 else ''}"


_FRAMES_PER_SECOND = 2.0  # of a video that does not say it in `fps`
_VIDEO_FILES = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv")
IMAGE_FILES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".jp2", ".ppm")


@dataclass(frozen=True)
class Place:
    """The row of a file that names pictures, and the folders that they are looked for in."""

    roots: list[Path]
    file: str
    row: int
    max_side: int

    def skip(self, reason: str, detail: str) -> Skipped:
        return Skipped(reason, self.file, self.row, detail)


def image_roots(file: Path, images: str | Path | None, published: Iterable[Path] = ()) -> list[Path]:
    """Folders to look for pictures in: the one given, or the file's own, its `images`, and where benchmarks put them."""
    if images is None:
        return [file.parent, file.parent / "images", *(folder for folder in published if folder.is_dir())]
    if not Path(images).is_dir():
        raise InvalidInputError(f"The image folder {images} of {file} does not exist. Give the folder with its images.")
    return [Path(images)]


@dataclass(frozen=True)
class Shown:
    """Pictures, or the frames of one video with how many are a second."""

    handles: tuple[ImageHandle, ...]
    frames_per_second: float | None = None

    @property
    def placeholder(self) -> str:
        return _PLACEHOLDER if self.frames_per_second is None else _VIDEO_PLACEHOLDER

    @property
    def number(self) -> int:
        """The number of placeholders that a text has for it."""
        return len(self.handles) if self.frames_per_second is None else 1


def field(element: Mapping[str, Any], kind: str) -> Any:
    """The first field of a kind that holds something; None if there is none."""
    return next((element[name] for name in FIELDS[kind] if element.get(name) not in (None, "", [])), None)


def read_item(element: Mapping[str, Any], shown: Shown, place: Place, *, source: str, task: str) -> Record | Skipped:
    """The record of an element: a conversation, or a question with its answers and options.

    source: the first part of the id where the element has none. Ids repeat in LLaVA-Instruct, so all have their row.
    """
    given, talk = element.get("id"), field(element, "conversations")
    identity = f"{source}/{place.row}" if given is None else f"{given}#{place.row}"
    references = as_answers(field(element, "answer"))
    try:
        if talk is not None or "conversations" in element:
            turns = _parse_conversation(talk or element["conversations"], shown.number, shown.placeholder)
            references = references or (turns[0].answer,)
        else:
            question = field(element, "question")
            if not isinstance(question, str) or not question.strip():
                return place.skip("no question", f"its question is {brief(question)}; give question, or conversations")
            if not references:
                return place.skip("no answer", "it has no answer; give answer, answers or conversations")
            turns = _place_images([_make_turn(question, references[0], shown.placeholder)], shown.number)
    except _ConversationError as error:
        return Skipped("malformed conversation", place.file, place.row, str(error), str(given or ""))
    known = {*_OTHER_FIELDS, *(name for kind in FIELDS if kind != "id" for name in FIELDS[kind])}
    return Record(
        id=identity,
        task=str(element.get("task") or task),
        handles=shown.handles,
        frames_per_second=shown.frames_per_second,
        turns=turns,
        references=references,
        options=_as_options(field(element, "options")),
        hint=str(element.get("hint") or ""),
        prompt=turns[0].instruction,
        free_text=talk is not None,
        meta={key: value for key, value in element.items() if key not in known},
        file=place.file,
        row=place.row,
    )


def as_answers(value: Any) -> tuple[str, ...]:
    """Accepted answers from a value or a list; numbers become text, empty ones are dropped."""
    values = value if isinstance(value, list | tuple) else [value]
    return tuple(str(entry).strip() for entry in values if entry is not None and str(entry).strip())


def _as_options(value: Any) -> dict[str, str]:
    if isinstance(value, dict):
        return {str(key).strip().upper(): str(text) for key, text in value.items()}
    if isinstance(value, list):
        return {letter: str(text) for letter, text in zip(ascii_uppercase, value, strict=False)}
    return {}


def find_shown(element: Mapping[str, Any], place: Place) -> Shown | Skipped:
    """The pictures or frames that an element names in its image field or in `video` and `fps`, or why it has none."""
    images = field(element, "image")
    video = element.get("video")
    if not video:
        found = find_handles(images, place)
        return found if isinstance(found, Skipped) else Shown(found)
    if images:
        return place.skip("malformed item", "it has both an image and a video; give one of them")
    rate = element.get("fps") or _FRAMES_PER_SECOND
    try:
        rate = float(rate)
    except (TypeError, ValueError):
        rate = -1.0
    if not 0 < rate < float("inf"):
        return place.skip("malformed item", f"its fps is {brief(element.get('fps'))}; it is a number above 0")
    names = _frame_names(video, place)
    found = names if isinstance(names, Skipped) else find_handles(names, place)
    return found if isinstance(found, Skipped) else Shown(found, rate)


def _frame_names(video: Any, place: Place) -> list[Any] | Skipped:
    """The frames of a video: a list as it is, or the pictures of a folder by name (2.png before 10.png)."""
    if isinstance(video, list):
        return video
    if not isinstance(video, str):
        return place.skip("malformed item", f"its video is {brief(video)}; it is a folder of frames or a list of files")
    if video.lower().endswith(_VIDEO_FILES):
        stem = os.path.splitext(video[:200])[0]  # noqa: PTH122 - a name of somebody's data, not a path of ours
        return place.skip(
            "video file",
            f"{video[:200]!r} is a video file, and vispco reads frames: take them out first, such as with "
            f"`ffmpeg -i {video[:200]} -vf fps=2 {stem}/%05d.png`, and name the folder {stem!r}",
        )
    limits = InputLimits.current()
    for root in place.roots:
        real, base = os.path.realpath(root / video), os.path.realpath(root)
        if not os.path.isdir(real):  # noqa: PTH112
            continue
        if not (limits.allow_outside or real.startswith(base.rstrip(os.sep) + os.sep)):
            return place.skip("refused image", f"video {video[:200]!r} lies outside of the picture folder")
        names = sorted((n for n in os.listdir(real) if n.lower().endswith(IMAGE_FILES)), key=_by_number)  # noqa: PTH208
        if not names:
            return place.skip("no image", f"the folder {video[:200]!r} of its video holds no pictures")
        return [f"{video}/{name}" for name in names]
    looked = " or ".join(str(root) for root in place.roots)
    return place.skip("missing image", f"the folder of frames {video[:200]!r} is not in {looked}")


def _by_number(name: str) -> list[tuple[int, int, str]]:
    """Names in the order in which a person would put them."""
    parts = re.findall(r"\d+|\D+", name)
    return [(0, int(part), "") if part.isdecimal() and part.isascii() else (1, 0, part) for part in parts]


def find_handles(images: Any, place: Place) -> tuple[ImageHandle, ...] | Skipped:
    """A handle for each file named in `images` (a name or a list of names), or what is wrong with the first bad one."""
    names = images if isinstance(images, list) else [images]
    if not names or names in ([None], [""]):
        return place.skip("no image", "it has no image; only items with one can be pruned")
    handles = []
    for name in names:
        if not isinstance(name, str) or not name:
            return place.skip("malformed item", f"its image is {brief(name)}; it must be a file name")
        try:
            found = find_image(name, place.roots)
        except OutsideError as error:
            return place.skip("refused image", f"image {name[:200]!r} {error}")
        if found is None:
            looked = " or ".join(str(root) for root in place.roots)
            return place.skip("missing image", f"image {name[:200]!r} is not in {looked}")
        path, head = found
        handle = ImageHandle(path, f"image {path}", place.file, place.row, place.max_side)
        wrong = handle.check(head)
        if wrong:
            return wrong
        handles.append(handle)
    return tuple(handles)
