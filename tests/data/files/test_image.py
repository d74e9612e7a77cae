"""Every picture that a dataset may hold becomes upright RGB, or a sentence."""

import contextlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from vispco.data.files.pictures import BrokenImageError, image_size, load_image, looks_like_image

RED = (255, 0, 0)


def split(mode="RGB", size=(40, 20)):
    """Red on the left, blue on the right."""
    image = Image.new("RGB", size, RED)
    image.paste((0, 0, 255), (size[0] // 2, 0, size[0], size[1]))
    return image.convert(mode)


def near(pixel, wanted, tolerance=12):
    return all(abs(a - b) <= tolerance for a, b in zip(pixel, wanted, strict=True))


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "PNG"), ("RGB", "JPEG"), ("RGB", "BMP"), ("RGB", "WEBP"), ("P", "PNG"), ("P", "GIF"), ("RGB", "TIFF")],
)
def test_common_modes_and_formats(mode, kind, encode):
    image = load_image(encode(split(mode), kind))
    assert (image.mode, image.size) == ("RGB", (40, 20))
    assert near(image.getpixel((3, 3)), RED, 40)


def test_cmyk(encode):
    image = load_image(encode(split("CMYK"), "JPEG", quality=95))
    assert image.mode == "RGB"
    assert near(image.getpixel((3, 3)), RED, 40)


@pytest.mark.parametrize("mode", ["RGBA", "LA"])
def test_what_is_transparent_is_white(mode, encode):
    assert load_image(encode(Image.new(mode, (4, 4)))).getpixel((0, 0)) == (255, 255, 255)


def test_a_palette_with_transparency(encode):
    image = split("P")
    image.info["transparency"] = image.getpixel((0, 0))
    loaded = load_image(encode(image, transparency=image.getpixel((0, 0))))
    assert loaded.getpixel((0, 0)) == (255, 255, 255)
    assert near(loaded.getpixel((39, 0)), (0, 0, 255))


@pytest.mark.parametrize("kind", ["GIF", "WEBP", "PNG"])
def test_the_first_frame_of_an_animation(kind, encode):
    frames = [Image.new("RGB", (10, 10), color) for color in ("red", "lime", "blue")]
    image = load_image(encode(frames[0], kind, save_all=True, append_images=frames[1:], lossless=True))
    assert near(image.getpixel((5, 5)), RED)


@pytest.mark.parametrize("orientation", range(1, 9))
@pytest.mark.parametrize("max_side", [4096, 20])
def test_exif_rotation_is_undone(orientation, max_side, encode):
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = encode(split(), "JPEG", exif=exif, quality=95)
    image = load_image(stored, max_side)
    wide, high = (40, 20) if max_side > 40 else (20, 10)
    assert image.size == ((wide, high) if orientation <= 4 else (high, wide))
    x, y = {1: (0, 0), 4: (0, 0), 5: (0, 0), 8: (0, 1), 6: (0, 0), 7: (0, 1)}.get(orientation, (1, 0))
    corner = (x * (image.width - 1), y * (image.height - 1))
    assert near(image.getpixel(corner), RED, 60)


def test_sixteen_bits_keep_their_shades(encode):
    values = np.linspace(0, 65535, 256, dtype=np.uint16).reshape(16, 16)
    image = np.asarray(load_image(encode(Image.fromarray(values))))[..., 0]
    assert image.min() == 0
    assert image.max() == 255
    assert len(np.unique(image)) > 200


def test_floating_point_is_scaled_and_nonsense_refused(encode):
    values = np.linspace(0, 1, 16, dtype=np.float32).reshape(4, 4)
    assert load_image(encode(Image.fromarray(values), "TIFF")).getextrema()[0] == (0, 255)
    values[0, 0] = np.nan
    with pytest.raises(BrokenImageError, match="undefined"):
        load_image(encode(Image.fromarray(values), "TIFF"))


def test_one_pixel(encode):
    for kind in ("PNG", "GIF", "JPEG"):
        assert load_image(encode(Image.new("RGB", (1, 1)), kind)).size == (1, 1)


@pytest.mark.parametrize("mode", ["L", "1", "P"])
def test_ten_thousand_by_ten_thousand_is_scaled_down(mode, encode):
    data = encode(Image.new(mode, (10_000, 10_000)), compress_level=1)
    assert image_size(data) == (10_000, 10_000)
    assert load_image(data, max_side=500).size == (500, 500)


def test_a_long_thin_picture_keeps_its_shape_and_at_least_one_pixel(encode):
    assert load_image(encode(Image.new("L", (5000, 1))), max_side=1000).size == (1000, 1)
    assert load_image(encode(Image.new("RGB", (3000, 1500)), "JPEG"), max_side=1000).size == (1000, 500)


def test_a_decompression_bomb_is_refused_with_the_limit(monkeypatch, encode):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 100)
    with pytest.raises(BrokenImageError, match="more than 200 pixels"):
        load_image(encode(Image.new("L", (20, 20))))


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF"])
def test_a_truncated_file_is_refused(kind, encode):
    noise = Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 64, 3), dtype=np.uint8))
    data = encode(noise, kind)
    with pytest.raises(BrokenImageError):
        load_image(data[: len(data) // 2])


@pytest.mark.parametrize("data", [b"", b"\0" * 100, b"<svg></svg>", b"%!PS-Adobe-3.0 EPSF-3.0\n", b"\x89PNG\r\n\x1a\n"])
def test_what_is_no_image_is_refused(data):
    with pytest.raises(BrokenImageError):
        load_image(data)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "GIF", "WEBP", "BMP", "TIFF", "PPM", "JPEG2000"])
def test_formats_are_known_by_their_first_bytes(kind, encode):
    assert looks_like_image(encode(split(), kind)[:16])
    assert not looks_like_image(b"<html>")


@settings(max_examples=100, deadline=None)
@given(data=st.data())
def test_damaged_bytes_give_an_image_or_a_broken_image_error(data, encode):
    whole = bytearray(encode(split(size=(8, 8)), data.draw(st.sampled_from(["PNG", "JPEG", "GIF", "TIFF", "BMP"]))))
    for _ in range(data.draw(st.integers(1, 8))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(BrokenImageError):
        assert load_image(bytes(whole), max_side=64).mode == "RGB"


@given(st.binary(max_size=200))
def test_arbitrary_bytes_never_raise_anything_else(data):
    with contextlib.suppress(BrokenImageError):
        assert load_image(data).mode == "RGB"
