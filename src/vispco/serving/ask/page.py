"""One self-contained page of a comparison: both answers, what they took, and the surviving tokens by layer."""

import html
import json
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any

from PIL import Image

from vispco.core.runs.files import replacing, write_text
from vispco.evaluation.survivors import as_seen, data_uri
from vispco.serving.ask.comparison import AnswerComparison, Reply
from vispco.serving.ask.picture_question import PictureQuestion
from vispco.serving.ask.survivor_sheet import sheet

_ROWS: tuple[tuple[str, Callable[[Reply], str]], ...] = (
    ("answer", lambda reply: reply.answer or "(empty)"),
    ("visual tokens, mean over layers", lambda reply: f"{fmean(reply.visual_tokens):.1f}"),
    ("visual tokens in the last layer", lambda reply: f"{reply.visual_tokens[-1]}"),
    ("GFLOPs of the language model (exact)", lambda reply: f"{reply.flops / 1e9:.4g}"),
    ("of unpruned", lambda reply: f"{reply.fraction:.1%}"),
    ("first token, ms", lambda reply: f"{reply.first_token_ms:.1f}"),
    ("whole answer, ms", lambda reply: f"{reply.milliseconds:.1f}"),
)

PAGE = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%(question)s</title>
<style>
body { font: 16px/1.5 system-ui, sans-serif; color: #1c2129; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; width: 100%%; } th, td { text-align: left; padding: .35rem .6rem; vertical-align: top;
border-bottom: 1px solid #e5e2da; overflow-wrap: anywhere; } th[scope=row] { font-weight: 400; color: #5d6470; }
.picture { position: relative; display: inline-block; margin-top: 1rem; max-width: 100%%; }
.picture img { display: block; width: %(width)dpx; max-width: 100%%; }
.picture canvas { position: absolute; inset: 0; width: 100%%; height: 100%%; image-rendering: pixelated; }
input[type=range] { width: 100%%; }
</style></head><body>
<h1>%(question)s</h1>
<table><thead><tr><th></th><th scope="col">unpruned</th><th scope="col">%(method)s</th></tr></thead>
<tbody>%(rows)s</tbody></table>
%(survivors)s
</body></html>
"""

SURVIVORS = """<div class="picture"><img src="%(image)s" alt="the picture"><canvas id="left"></canvas></div>
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
            sheet(picture, found.depth, found.layers, lines).save(temporary, "PNG")
        files["picture"] = str(target)
    if page:
        files["page"] = str(write_text(target.with_suffix(".html"), _html_page(found, picture)))
    return files


def _html_page(comparison: AnswerComparison, picture: Image.Image) -> str:
    """The page; it needs no other file and no network."""
    cells = "".join(
        f'<tr><th scope="row">{name}</th>' + "".join(f"<td>{html.escape(text)}</td>" for text in texts) + "</tr>"
        for name, *texts in rows(comparison)
    )
    survivors = "<p>The token grid of this model is not known, so survivors cannot be drawn.</p>"
    if comparison.depth is not None:
        survivors = SURVIVORS % {
            "image": data_uri(picture),
            "last": comparison.layers - 1,
            "depth": json.dumps(comparison.depth),
        }
    return PAGE % {
        "question": html.escape(comparison.question),
        "method": html.escape(comparison.method),
        "rows": cells,
        "survivors": survivors,
        "width": 640,
    }
