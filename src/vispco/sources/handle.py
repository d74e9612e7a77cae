"""A picture that is not in memory yet: where it is, and how to get it when somebody looks."""

from __future__ import annotations

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

    def _head(self) -> bytes:
        if not isinstance(self.source, Path):
            return self.source()[:16]
        with self.source.open("rb") as stream:
            return stream.read(16)

    def check(self) -> Skipped | None:
        """What is wrong with the picture as far as its first bytes show, without decoding it."""
        try:
            head = self._head()
        except OSError as error:
            return self._skipped("missing image", f"{self.name} cannot be opened ({error.strerror or error})")
        except ValueError as error:
            return self._skipped("broken image", f"{self.name}: {error}")
        if not looks_like_image(head):
            return self._skipped("broken image", f"{self.name} is not an image (its first bytes are {head!r})")
        return None


def find_image(name: str, roots: Sequence[Path]) -> Path | None:
    """The file of that name under the first root that has it, by its full relative path or by its last part."""
    try:
        for candidate in (Path(name), Path(Path(name).name)):
            for root in roots:
                path = root / candidate
                if path.is_file():
                    return path
    except (OSError, ValueError):  # a name that no file can have: too long, or with a NUL byte
        return None
    return None
