"""What a row of data shows: its pictures, or the frames of its video.

A video is a folder of frames, in the order of their names, or a list of frame files. Video files themselves are not
decoded: that needs a decoder, which vispco does not depend on, and a choice of frames, which is the user's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vispco.data.files.conversation import PLACEHOLDER, VIDEO_PLACEHOLDER, brief
from vispco.data.files.image_handle import ImageHandle, OutsideError, find_image
from vispco.data.files.limits import InputLimits
from vispco.data.files.skipped import Skipped

FRAMES_PER_SECOND = 2.0  # of a video that does not say it in `fps`
VIDEO_FILES = (".mp4", ".mkv", ".webm", ".avi", ".mov", ".m4v", ".mpg", ".mpeg", ".wmv", ".flv")
FRAME_FILES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".avif", ".jp2", ".ppm")


@dataclass(frozen=True)
class Place:
    """Where pictures are looked for, and on whose behalf: folders, the file that names them and the row there."""

    roots: list[Path]
    file: str
    row: int
    max_side: int

    def skip(self, reason: str, detail: str) -> Skipped:
        return Skipped(reason, self.file, self.row, detail)


@dataclass(frozen=True)
class Shown:
    """Pictures, or the frames of one video with how many are a second."""

    handles: tuple[ImageHandle, ...]
    frames_per_second: float | None = None

    @property
    def placeholder(self) -> str:
        return PLACEHOLDER if self.frames_per_second is None else VIDEO_PLACEHOLDER

    @property
    def number(self) -> int:
        """How many placeholders a text has for it."""
        return len(self.handles) if self.frames_per_second is None else 1


def find_shown(element: Mapping[str, Any], place: Place) -> Shown | Skipped:
    """What the keys `image`, `images`, `video` and `fps` of an element name, or what is wrong with it."""
    images = element.get("image", element.get("images"))
    video = element.get("video")
    if not video:
        found = find_handles(images, place)
        return found if isinstance(found, Skipped) else Shown(found)
    if images:
        return place.skip("malformed item", "it has both an image and a video; give one of them")
    rate = element.get("fps") or FRAMES_PER_SECOND
    try:
        rate = float(rate)
    except (TypeError, ValueError):
        rate = -1.0
    if not 0 < rate < float("inf"):
        return place.skip("malformed item", f"its fps is {brief(element.get('fps'))}; it is a number above 0")
    names = frame_names(video, place)
    found = names if isinstance(names, Skipped) else find_handles(names, place)
    return found if isinstance(found, Skipped) else Shown(found, rate)


def frame_names(video: Any, place: Place) -> list[Any] | Skipped:
    """The frames of a video: a list as it is, or the pictures of a folder by name (2.png before 10.png)."""
    if isinstance(video, list):
        return video
    if not isinstance(video, str):
        return place.skip("malformed item", f"its video is {brief(video)}; it is a folder of frames or a list of files")
    if video.lower().endswith(VIDEO_FILES):
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
        names = sorted((n for n in os.listdir(real) if n.lower().endswith(FRAME_FILES)), key=_by_number)  # noqa: PTH208
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
