"""A comparison as a table, as a sheet of pictures with the tokens that are left by layer, and as a page of both."""

import html
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from vispco.core.runs.files import replacing, write_text
from vispco.evaluation.survivors import as_seen, data_uri
from vispco.serving.ask.comparison import AnswerComparison, Reply
from vispco.serving.ask.picture_question import PictureQuestion

_Depth = Sequence[Sequence[int]]  # [rows][columns]: how many layers process each token
_SIDE = 220  # pixels of a small picture's longer side
_GAP, _LINE, _MARGIN = 14, 20, 16
_INK, _SOFT, _PAPER = (28, 33, 41), (93, 100, 112), (255, 255, 255)
_MOST = 12


_ROWS: tuple[tuple[str, Callable[[Reply], str]], ...] = (
    ("answer", lambda reply: reply.answer or "(empty)"),
    ("visual tokens, mean over layers", lambda reply: f"{fmean(reply.visual_tokens):.1f}"),
    ("visual tokens in the last layer", lambda reply: f"{reply.visual_tokens[-1]}"),
    ("GFLOPs of the language model (exact)", lambda reply: f"{reply.flops / 1e9:.4g}"),
    ("of unpruned", lambda reply: f"{reply.fraction:.1%}"),
    ("first token, ms", lambda reply: f"{reply.first_token_ms:.1f}"),
    ("whole answer, ms", lambda reply: f"{reply.milliseconds:.1f}"),
)

_PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%(question)s</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2129; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%%; } th, td { text-align: left; padding: .35rem .6rem; vertical-align: top;
border-bottom: 1px solid #e5e2da; overflow-wrap: anywhere; } th[scope=row] { font-weight: 400; color: #5d6470; }
.picture { position: relative; display: inline-block; margin-top: 1rem; max-width: 100%%; }
.picture img { display: block; width: 640px; max-width: 100%%; }
.picture canvas { position: absolute; inset: 0; width: 100%%; height: 100%%; image-rendering: pixelated; }
input[type=range] { width: 100%%; }
</style></head><body>
<h1>%(question)s</h1>
<table><thead><tr><th></th><th scope="col">unpruned</th><th scope="col">%(method)s</th></tr></thead>
<tbody>%(rows)s</tbody></table>
%(survivors)s
</body></html>
"""

_SURVIVORS = """<div class="picture"><img src="%(image)s" alt="the picture"><canvas id="left"></canvas></div>
<label for="layer" id="caption"></label>
<input type="range" id="layer" min="0" max="%(last)d" value="%(last)d">
<script>
const depth = %(depth)s;
const canvas = document.getElementById("left"), slider = document.getElementById("layer");
function show() {
  const layer = Number(slider.value), context = canvas.getContext("2d");
  canvas.width = depth[0].length; canvas.height = depth.length;
  context.fillStyle = "rgba(255, 255, 255, 0.86)";
  let alive = 0;
  depth.forEach((row, y) => row.forEach((value, x) => {
    if (value > layer) alive += 1; else context.fillRect(x, y, 1, 1);
  }));
  const total = depth.length * depth[0].length;
  document.getElementById("caption").textContent = `layer ${layer}: ${alive} of ${total} visual tokens`;
}
slider.addEventListener("input", show);
show();
</script>"""


def _layers_shown(depth: _Depth, num_layers: int, most: int = _MOST) -> list[int]:
    """Layer 0, each layer that fewer tokens enter than the one before, and the last; thinned out evenly to `most`."""
    left = {value for row in depth for value in row if 0 < value < num_layers}
    left |= {0} if any(value == 0 for row in depth for value in row) else set()
    changes = sorted({0, *left, num_layers - 1})
    if len(changes) <= most:
        return changes
    picked = {round(place * (len(changes) - 1) / (most - 1)) for place in range(most)}
    return [changes[place] for place in sorted(picked)]


def survivors_at(picture: Image.Image, depth: _Depth, layer: int) -> Image.Image:
    """The picture with the places of tokens that have left before `layer` faded to near white."""
    rows, columns = len(depth), len(depth[0])
    mask = Image.new("L", (columns, rows))
    mask.putdata([255 if value > layer else 0 for row in depth for value in row])
    faded = Image.blend(picture, Image.new("RGB", picture.size, _PAPER), 0.86)
    return Image.composite(picture, faded, mask.resize(picture.size, Image.Resampling.NEAREST))


def _sheet(picture: Image.Image, depth: _Depth, num_layers: int, title: Sequence[str]) -> Image.Image:
    """All of `_layers_shown` with their numbers of tokens, row by row, under the lines of a title."""
    small = picture.convert("RGB")
    scale = _SIDE / max(small.size)
    small = small.resize((max(1, round(small.width * scale)), max(1, round(small.height * scale))))
    shown = _layers_shown(depth, num_layers)
    columns = min(len(shown), max(1, math.ceil(math.sqrt(1.6 * len(shown)))))
    rows = math.ceil(len(shown) / columns)
    cell = (max(small.width, 120) + _GAP, small.height + _GAP + _LINE)
    font = ImageFont.load_default(size=13)
    lines = [line for each in title for line in _wrapped(each, font, columns * cell[0] - _GAP)]
    top = _MARGIN + _LINE * len(lines) + _GAP // 2
    page = Image.new("RGB", (2 * _MARGIN + columns * cell[0] - _GAP, top + rows * cell[1] + _MARGIN - _GAP), _PAPER)
    draw = ImageDraw.Draw(page)
    for number, line in enumerate(lines):
        draw.text((_MARGIN, _MARGIN + _LINE * number), line, fill=_INK, font=font)
    total = sum(len(row) for row in depth)
    for number, layer in enumerate(shown):
        left, up = _MARGIN + number % columns * cell[0], top + number // columns * cell[1]
        alive = sum(value > layer for row in depth for value in row)
        draw.text((left, up), f"layer {layer}: {alive} of {total}", fill=_SOFT, font=font)
        page.paste(survivors_at(small, depth, layer), (left, up + _LINE))
    return page


def _wrapped(text: str, font: ImageFont.FreeTypeFont | ImageFont.ImageFont, width: int) -> list[str]:
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if font.getlength(longer) > width and lines[-1]:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines[:4]


def rows(found: AnswerComparison) -> list[list[str]]:
    """What a table of a comparison holds: a name, unpruned, pruned."""
    return [[name, text_of(found.unpruned), text_of(found.pruned)] for name, text_of in _ROWS]


def write_survivors(
    found: AnswerComparison, sample: PictureQuestion, processor: Any, title: str, target: Path, *, page: bool = False
) -> dict[str, str]:
    """Write which tokens survive as a picture, and as a page if asked for; gives the files. title: of the pruned answer."""
    picture = as_seen(sample.images[0], processor)
    files: dict[str, str] = {}
    if found.depth is not None:
        lines = (found.question, f"unpruned: {found.unpruned.answer}", f"{title}: {found.pruned.answer}")
        with replacing(target) as temporary:
            _sheet(picture, found.depth, found.layers, lines).save(temporary, "PNG")
        files["picture"] = str(target)
    if page:  # it needs no other file and no network
        cells = "".join(
            f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{html.escape(text)}</td>" for text in texts) + "</tr>"
            for name, *texts in rows(found)
        )
        survivors = "<p>The token grid of this model is not known, so survivors cannot be drawn.</p>"
        if found.depth is not None:
            last, depth = found.layers - 1, json.dumps(found.depth)
            survivors = _SURVIVORS % {"image": data_uri(picture), "last": last, "depth": depth}
        content = _PAGE % {
            "question": html.escape(found.question),
            "method": html.escape(found.method),
            "rows": cells,
            "survivors": survivors,
        }
        files["page"] = str(write_text(target.with_suffix(".html"), content))
    return files
