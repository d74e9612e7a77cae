"""A picture that is not in memory yet: where it is, and how to get it when somebody looks."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vispco.data.files.image import MAX_SIDE, BrokenImageError, image_size, load_image, looks_like_image
from vispco.data.files.limits import InputLimits, open_inside
from vispco.data.files.skipped import Skipped, SkippedItemError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from PIL.Image import Image

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImageHandle:
    """`source` is a file, or fetches the encoded bytes anew each time: a list of handles holds no pictures."""

    source: Path | Callable[[], bytes] = field(repr=False)
    name: str  # what to call the picture in a sentence
    file: str  # the file that refers to it, and the row there
    row: int | None
    max_side: int = MAX_SIDE

    def load(self) -> Image:
        """The picture in upright RGB. One that cannot be read raises `SkippedItemError`."""
        return self._decode(partial(load_image, max_side=self.max_side))

    def size(self) -> tuple[int, int]:
        """(width, height) as stored, from the header: before EXIF rotation and before any scaling down."""
        return self._decode(image_size)

    def _decode(self, decode: Callable[[bytes | Path], T]) -> T:
        try:
            return decode(self.source if isinstance(self.source, Path) else self.source())
        except (BrokenImageError, OSError, ValueError) as error:
            raise SkippedItemError(self._skipped("broken image", f"{self.name}: {error}")) from error

    def _skipped(self, reason: str, detail: str) -> Skipped:
        return Skipped(reason, self.file, self.row, detail)

    def check(self, head: bytes) -> Skipped | None:
        """What is wrong with the picture as far as its first bytes show, without decoding it."""
        if looks_like_image(head):
            return None
        return self._skipped("broken image", f"{self.name} is not an image in a format that is read")


class OutsideError(Exception):
    """A picture that is there, but outside of the picture folder, or not a regular file, or too large."""


def find_image(name: str, roots: Sequence[Path]) -> tuple[Path, bytes] | None:
    """The file of that name under the first root that has it, by its full relative path or by its last part.

    Its first 16 bytes come with it: one opening of the file tells both that it is there and that it is a picture.
    Raises `OutsideError` with the reason for a file that is there and may not be read (see `InputLimits`).
    """
    limits, refused = InputLimits.current(), ""
    for candidate in dict.fromkeys((name, os.path.basename(name))):  # noqa: PTH119  a Path costs ten times as much
        for root in roots:
            path = os.path.join(root, candidate)  # noqa: PTH118  (same; there may be millions)
            try:
                handle = open_inside(path, root, allow_outside=limits.allow_outside)
                if handle is None:
                    refused = refused or _why_refused(path)
                    continue
                with os.fdopen(handle, "rb", buffering=0) as stream:
                    size = os.fstat(handle).st_size
                    if size <= limits.max_image_bytes:
                        return Path(path), stream.read(16)
                    refused = f"has {size:,} bytes, more than the {limits.max_image_bytes:,} of --max-image-bytes"
            except (OSError, ValueError):  # not there, or a name that no file can have
                continue
    if refused:
        raise OutsideError(refused)
    return None


def _why_refused(path: str) -> str:
    """Nothing is said of what is outside: whether it is there is nobody's business."""
    try:
        inside = stat.S_ISREG(os.lstat(path).st_mode) or not os.path.lexists(path)
    except (OSError, ValueError):
        inside = True
    return (
        "lies outside of the picture folder; --allow-outside reads it"
        if inside or os.path.islink(path)  # noqa: PTH114
        else "is not a regular file"
    )
