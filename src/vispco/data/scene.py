"""A drawn picture: its vocabulary, the scene as plain data, the board that lays it out, and `draw`, which gives pixels."""

import math
import zlib
from dataclasses import dataclass, replace
from functools import lru_cache
from random import Random

import numpy as np
from PIL import Image, ImageDraw, ImageFont

RGB = tuple[int, int, int]

COLORS: dict[str, RGB] = {
    "red": (215, 30, 35),
    "green": (25, 150, 50),
    "blue": (30, 70, 215),
    "yellow": (245, 215, 20),
    "purple": (125, 35, 170),
    "orange": (245, 125, 15),
    "cyan": (20, 195, 215),
    "pink": (250, 130, 190),
}

SHAPES: tuple[str, ...] = ("circle", "square", "triangle", "cross", "ring", "star")

PLACES: tuple[tuple[str, ...], ...] = (
    ("top left", "top", "top right"),
    ("left", "center", "right"),
    ("bottom left", "bottom", "bottom right"),
)

_SIGNS = """
act air ant arm art bag bar bed bee box bus cab cap car cat cow cup dog ear egg eye fan fig fox gas gum hat hen ice
ink jam jar key kit lab law leg lip map mud net nut oak oil owl pan pen pie pig pot ram rug sea sky sun tea van wax
web zoo bank bird boat cafe city door exit fish gate gold hill home king lake lion milk moon park road rock salt ship
shop snow taxi tree wind wood yard zone
"""
WORDS: tuple[str, ...] = tuple(_SIGNS.split())

ROW_HEADERS = "abcdefgh"
COLUMN_HEADERS = "pqrstuvx"
DIGITS = "0123456789"
LETTERS = "abcdefghijklmnopqrstuvwxyz"

_Box = tuple[float, float, float, float]  # x0, y0, x1, y1 as fractions of the width and the height


@dataclass(frozen=True, slots=True)
class Mark:
    """One thing in a picture. `color` is the name that a question may use; for a glyph, that of its sign or bar."""

    kind: str  # object | glyph | sign | bar | panel | stroke
    box: _Box
    rgb: RGB
    shape: str = ""
    color: str = ""
    char: str = ""
    index: int = 0  # 1 for the first character of a word or number
    row: str = ""  # header of a table's row, for its entries
    column: str = ""
    size: float = 0.0  # an object's diameter, as a fraction of the shorter side

    @property
    def center(self) -> tuple[float, float]:
        return (self.box[0] + self.box[2]) / 2, (self.box[1] + self.box[3]) / 2


@dataclass(frozen=True, slots=True)
class Scene:
    """A picture before it is drawn; `subject` is what its task will ask about first."""

    width: int
    height: int
    paper: RGB
    texture: int
    marks: tuple[Mark, ...]
    subject: tuple[str, ...] = ()

    @property
    def objects(self) -> list[Mark]:
        return [mark for mark in self.marks if mark.kind == "object"]

    @property
    def fingerprint(self) -> int:
        """A number that two scenes share only if the same things stand at the same places."""
        return zlib.crc32(repr((self.width, self.height, self.marks)).encode())


def picture_size(rng: Random, difficulty: float, *, small: int = 84) -> tuple[int, int]:
    """Width and height whose area is skewed with a long tail: most pictures are small, a few many times larger."""
    large = 136 + 200 * difficulty
    side = min(large, small * math.exp(rng.expovariate(1 / 0.25)))
    aspect = math.exp(rng.uniform(-0.13, 0.13))
    return round(side * math.sqrt(aspect)), round(side / math.sqrt(aspect))


def tint(rng: Random, color: str) -> RGB:
    """The named colour, a little off."""
    red, green, blue = (min(255, max(0, channel + rng.randint(-12, 12))) for channel in COLORS[color])
    return red, green, blue


def ink_on(rgb: RGB) -> RGB:
    """Black or white, whichever can be read on `rgb`."""
    return (10, 10, 10) if rgb[0] * 0.3 + rgb[1] * 0.59 + rgb[2] * 0.11 > 120 else (250, 250, 250)


class Board:
    """A scene in the making: a grid of 4 x 4 free cells that things are put into."""

    def __init__(self, rng: Random, size: tuple[int, int]) -> None:
        self.rng = rng
        self.width, self.height = size
        # A muted background, from grey to almost white with a tinge, on which the named colours stand out.
        level = rng.randint(165, 240)
        self.paper = (level + rng.randint(-14, 14), level + rng.randint(-14, 14), level + rng.randint(-14, 14))
        self.free = [(column, row) for row in range(4) for column in range(4)]
        rng.shuffle(self.free)
        self.marks: list[Mark] = []
        # Faint lines behind everything.
        for _ in range(self.rng.randint(0, 4)):
            shift = self.rng.choice((-28, 28))
            rgb = (self.paper[0] + shift, self.paper[1] + shift, self.paper[2] + shift)
            box = (self.rng.random(), self.rng.random(), self.rng.random(), self.rng.random())
            self.marks.append(Mark("stroke", box, rgb))

    def square(self, x: float, y: float, size: float) -> _Box:
        """A box round (x, y) that is a square in pixels, `size` of the shorter side."""
        half = size * min(self.width, self.height) / 2
        return (x - half / self.width, y - half / self.height, x + half / self.width, y + half / self.height)

    def take(self, box: _Box) -> None:
        """Nothing else may be put where `box` is."""
        self.free = [
            (column, row)
            for column, row in self.free
            if (column + 1) / 4 <= box[0] + 0.02
            or column / 4 >= box[2] - 0.02
            or (row + 1) / 4 <= box[1] + 0.02
            or row / 4 >= box[3] - 0.02
        ]

    def spot(self, size: float) -> tuple[float, float]:
        column, row = self.free.pop()
        slack = max(0.0, 0.125 - size / 2 - 0.01)
        return ((column + 0.5) / 4 + self.rng.uniform(-slack, slack), (row + 0.5) / 4 + self.rng.uniform(-slack, slack))

    def put_object(self, shape: str, color: str, size: float | None = None) -> None:
        size = self.rng.uniform(0.13, 0.21) if size is None else size
        self._object(shape, color, size, *self.spot(size))

    def put_object_at(self, shape: str, color: str, size: float, x: float, y: float) -> None:
        self.take(self.square(x, y, size))
        self._object(shape, color, size, x, y)

    def _object(self, shape: str, color: str, size: float, x: float, y: float) -> None:
        rgb = tint(self.rng, color)
        self.marks.append(Mark("object", self.square(x, y, size), rgb, shape=shape, color=color, size=size))

    def put_clutter(self, objects: int, letters: int = 0) -> None:
        """Objects that nobody chose, and single letters, as long as there is room."""
        for _ in range(min(objects, len(self.free))):
            self.put_object(self.rng.choice(SHAPES), self.rng.choice(list(COLORS)))
        for _ in range(min(letters, len(self.free))):
            x, y = self.spot(0.15)
            self.put_glyph(self.rng.choice(LETTERS), x, y, 0.15, ink_on(self.paper))

    def put_glyph(self, char: str, x: float, y: float, size: float, rgb: RGB, **labels: str | int) -> None:
        mark = Mark("glyph", self.square(x, y, size), rgb, char=char, size=size)
        self.marks.append(replace(mark, **labels))  # type: ignore[arg-type]

    def scene(self, *subject: str) -> Scene:
        return Scene(self.width, self.height, self.paper, self.rng.getrandbits(31), tuple(self.marks), subject)


def draw(scene: Scene) -> Image.Image:
    """The picture of a scene: textured paper, then the marks in their order."""
    # A slope of light over the page and a grain, both from the scene's texture seed.
    rng = np.random.default_rng(scene.texture)
    slope_x, slope_y, grain = rng.uniform(-12, 12), rng.uniform(-12, 12), rng.uniform(0, 6)
    x = np.linspace(-1, 1, scene.width, dtype=np.float32)[None, :]
    y = np.linspace(-1, 1, scene.height, dtype=np.float32)[:, None]
    light = slope_x * x + slope_y * y + grain * rng.standard_normal((scene.height, scene.width), dtype=np.float32)
    page = np.asarray(scene.paper, dtype=np.float32) + light[:, :, None]
    pixels: np.ndarray = np.clip(page, 0, 255).astype(np.uint8)
    image = Image.fromarray(pixels)
    pen = ImageDraw.Draw(image)
    for mark in scene.marks:
        left, top, right, bottom = mark.box
        box = (left * scene.width, top * scene.height, right * scene.width, bottom * scene.height)
        if mark.kind == "object":
            _object(pen, mark, box)
        elif mark.kind == "glyph":
            center = ((box[0] + box[2]) / 2, (box[1] + box[3]) / 2)
            font = _font(max(7, round((box[3] - box[1]) * 1.15)))
            bold = (box[3] - box[1]) * 0.035
            text = mark.char.upper()
            pen.text(center, text, mark.rgb, font, "mm", stroke_width=bold, stroke_fill=mark.rgb)
        elif mark.kind == "stroke":
            pen.line(box, fill=mark.rgb, width=max(1, min(scene.width, scene.height) // 60))
        else:
            pen.rectangle(box, fill=mark.rgb)
    return image


def _object(pen: ImageDraw.ImageDraw, mark: Mark, box: _Box) -> None:
    x0, y0, x1, y1 = box
    center, radius = ((x0 + x1) / 2, (y0 + y1) / 2), (x1 - x0) / 2
    if mark.shape == "circle":
        pen.ellipse(box, fill=mark.rgb)
    elif mark.shape == "square":
        inset = radius * 0.12
        pen.rectangle((x0 + inset, y0 + inset, x1 - inset, y1 - inset), fill=mark.rgb)
    elif mark.shape == "triangle":
        pen.polygon(((x0 + x1) / 2, y0, x1, y1, x0, y1), fill=mark.rgb)
    elif mark.shape == "cross":
        arm = radius * 0.3
        pen.rectangle((center[0] - arm, y0, center[0] + arm, y1), fill=mark.rgb)
        pen.rectangle((x0, center[1] - arm, x1, center[1] + arm), fill=mark.rgb)
    elif mark.shape == "ring":
        pen.ellipse(box, outline=mark.rgb, width=max(2, round(radius * 0.38)))
    else:
        radii = (radius * 1.1, radius * 0.45) * 5
        step = 2 * math.pi / len(radii)
        corners = [
            (center[0] + r * math.sin(step * i), center[1] - r * math.cos(step * i)) for i, r in enumerate(radii)
        ]
        pen.polygon(corners, fill=mark.rgb)


@lru_cache(maxsize=256)
def _font(size: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(size)
