"""A picture that is not in memory yet: where it is, and how to get it when somebody looks."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vispco.sources.image import MAX_SIDE, BrokenImageError, image_size, load_image, looks_like_image
from vispco.sources.skipped import Skipped, SkippedItemError

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
        return self._skipped("broken image", f"{self.name} is not an image (its first bytes are {head!r})")


def find_image(name: str, roots: Sequence[Path]) -> tuple[Path, bytes] | None:
    """The file of that name under the first root that has it, by its full relative path or by its last part.

    Its first 16 bytes come with it: one opening of the file tells both that it is there and that it is a picture.
    """
    for candidate in dict.fromkeys((name, os.path.basename(name))):  # noqa: PTH119  a Path costs ten times as much
        for root in roots:
            path = os.path.join(root, candidate)  # noqa: PTH118  (same; there may be millions)
            try:
                with open(path, "rb", buffering=0) as stream:  # noqa: PTH123
                    return Path(path), stream.read(16)
            except (OSError, ValueError):  # not there, or a name that no file can have
                continue
    return None
