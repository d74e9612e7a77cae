"""Pictures of datasets: handles that load on use, decoded as upright 8-bit RGB; a broken one says what is wrong."""

import contextlib
import io
import math
import os
import stat
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
from PIL import Image, UnidentifiedImageError

from vispco.data.files.record import MAX_SIDE, InputLimits, Skipped, SkippedItemError

# Pillow also opens formats that start other programs (EPS) or that no dataset has; these are read, nothing else.
_FORMATS = ("BMP", "DIB", "GIF", "JPEG", "JPEG2000", "MPO", "PNG", "PPM", "TIFF", "WEBP", "AVIF")

_SIGNATURES = (
    b"\xff\xd8\xff",  # JPEG, MPO
    b"\x89PNG",
    b"GIF8",
    b"BM",
    b"RIFF",  # WebP
    b"II*\0",
    b"MM\0*",  # TIFF
    b"\0\0\0\x0cjP",
    b"\xff\x4f\xff\x51",  # JPEG 2000
    *(b"P%d" % kind for kind in range(1, 7)),  # PPM
)


_ORIENTATION = 0x0112  # the EXIF tag
_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


class BrokenImageError(ValueError):
    """These bytes do not give a picture; the message says why, the caller knows which file and row they are from."""


def looks_like_image(head: bytes) -> bool:
    """Whether the first bytes (16 are enough) are those of a format that is read: a check that costs nothing."""
    return head.startswith(_SIGNATURES) or head[4:8] == b"ftyp"


@contextlib.contextmanager
def _opened(source: bytes | Path) -> Iterator[Image.Image]:
    """The picture with only its header read; every way in which Pillow can fail becomes a `BrokenImageError`."""
    Image.init()
    formats = [name for name in _FORMATS if name in Image.OPEN]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large pictures; they are scaled down or refused here
            with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source, formats=formats) as picture:
                yield picture
    except BrokenImageError:
        raise
    except Image.DecompressionBombError:
        limit = 2 * (Image.MAX_IMAGE_PIXELS or 0)
        raise BrokenImageError(
            f"the image has more than {limit:,} pixels, which could fill the memory; scale it down first"
        ) from None
    except UnidentifiedImageError:
        raise BrokenImageError(f"it is empty or not an image in one of the formats {', '.join(formats)}") from None
    except FileNotFoundError:
        raise BrokenImageError("the file is no longer there") from None
    except Exception as error:  # Pillow's plugins raise OSError, SyntaxError, struct.error, IndexError, ... on bad data
        raise BrokenImageError(f"the image is damaged or cut off ({error})") from error


def image_size(source: bytes | Path) -> tuple[int, int]:
    """Width and height from the header alone. Nothing is decoded."""
    with _opened(source) as picture:
        return picture.size


def load_image(source: bytes | Path, max_side: int = MAX_SIDE) -> Image.Image:
    """The first frame, turned upright by its EXIF tag, in RGB on white, with no side longer than `max_side`."""
    with _opened(source) as picture:
        try:  # the transposition that undoes the camera's rotation
            turn = _TURNS.get(picture.getexif().get(_ORIENTATION, 1))
        except Exception:  # noqa: BLE001 - the EXIF parser fails in many ways, and a damaged block is no reason to lose the picture
            turn = None
        if max(picture.size) > max_side:
            # JPEG can be decoded at 1/2, 1/4 or 1/8: a 10,000 × 10,000 photo never stands in memory in full.
            picture.draft(None, (max_side, max_side))
        picture.load()
        rgb = _to_rgb(scaled(picture, max_side))
        return rgb if turn is None else rgb.transpose(turn)


def scaled(picture: Image.Image, max_side: int) -> Image.Image:
    ratio = max_side / max(picture.size)
    if ratio >= 1:
        return picture
    width, height = (max(1, round(side * ratio)) for side in picture.size)
    if picture.mode in ("P", "1"):  # their values are names of colours, which cannot be averaged
        if ratio < 0.25:  # a copy with four times the memory is made of what is left, not of the whole picture
            picture = picture.resize((4 * width, 4 * height), Image.Resampling.NEAREST)
        picture = picture.convert("RGBA" if picture.mode == "P" else "L")
    return picture.resize((width, height), Image.Resampling.BOX, reducing_gap=2.0)


def _to_rgb(picture: Image.Image) -> Image.Image:
    """On white. Wide grey values are brought to 0..255, where Pillow would clip them."""
    if picture.mode[0] in "IF":
        values = np.asarray(picture)  # [H, W]
        if np.issubdtype(values.dtype, np.integer):  # of up to 16 bits
            eight_bit = (values // 256 if int(values.max()) > 255 else values).clip(0, 255)
        else:  # floats, from their own range
            low, high = float(values.min()), float(values.max())
            if not np.isfinite([low, high]).all():
                raise BrokenImageError("the image holds infinite or undefined values")
            eight_bit = (values - low) * (255.0 / ((high - low) or 1.0))
        return Image.fromarray(eight_bit.astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in picture.info:
        overlay = picture.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", overlay.size, "white"), overlay).convert("RGB")
    return picture.convert("RGB") if picture.mode != "RGB" else picture.copy()


def within_pixels(picture: Image.Image, low: int | None, high: int | None, multiple: int = 1) -> Image.Image:
    """The picture scaled to between `low` and `high` pixels, with sides that are a multiple of `multiple`.

    The rule is Qwen's: sides are rounded to the multiple first, and scaled only if that leaves the bounds. Without bounds
    the picture stays as it is.
    """
    if low is None and high is None:
        return picture
    width, height = picture.size
    sides = [max(multiple, round(side / multiple) * multiple) for side in (width, height)]
    if high is not None and sides[0] * sides[1] > high:
        scale = math.sqrt(width * height / high)
        sides = [max(multiple, math.floor(side / scale / multiple) * multiple) for side in (width, height)]
    elif low is not None and sides[0] * sides[1] < low:
        scale = math.sqrt(low / (width * height))
        sides = [math.ceil(side * scale / multiple) * multiple for side in (width, height)]
    return picture.resize((sides[0], sides[1]), Image.Resampling.BICUBIC)


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class ImageHandle:
    """`source` is a file, or fetches the encoded bytes anew each time: a list of handles holds no pictures."""

    source: Path | Callable[[], bytes] = field(repr=False)
    name: str  # what to call the picture in a sentence
    file: str  # the file that refers to it, and the row there
    row: int | None
    max_side: int = MAX_SIDE

    def load(self) -> Image.Image:
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
        """The fault of a picture that its first bytes show, without decoding it; None if they show none."""
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
                handle = _open_inside(path, root, allow_outside=limits.allow_outside)
                if handle is None:  # nothing is said of what is outside: whether it is there is nobody's business
                    outside = "lies outside of the picture folder; --allow-outside reads it"
                    refused = refused or ("is not a regular file" if _is_special(path) else outside)
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


def _open_inside(path: str, root: Path, *, allow_outside: bool) -> int | None:
    """A handle on a regular file inside of `root`; None if it is not one. Raises `OSError` if there is none."""
    if not allow_outside:
        real, base = os.path.realpath(path), os.path.realpath(root)
        if not real.startswith(base.rstrip(os.sep) + os.sep):
            return None
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        return None
    return handle


def _is_special(path: str) -> bool:
    """Whether something is at a path itself that is neither a regular file nor a link."""
    try:
        mode = os.lstat(path).st_mode
    except (OSError, ValueError):
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISLNK(mode))
