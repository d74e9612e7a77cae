"""Makes the pictures of the README and the docs from runs: screenshots of the page, and figures, as small WebP files in docs/pictures.

    python benchmarks/pictures.py runs/demo [MORE RUNS...]      # `make pictures`, after `make demo`
    python benchmarks/pictures.py tasks              # a test item of each synthetic task, for docs/zoo.md
    python benchmarks/pictures.py several            # two pictures and a video, for the same

The page needs chromium and chromedriver (`make browser`). The same runs give the same names. pictures.json keeps the
headings of the page that was photographed; a test fails when the page has others, and the pictures must be made again.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

ROOT = Path(__file__).parent.parent
INTO = ROOT / "docs" / "pictures"
RECORD = INTO / "pictures.json"
MOST = 300_000  # bytes of a picture
DESKTOP, PHONE = 1280, 390
FIGURES = ("configurations", "retention-by-budget")
PARTS = {"page": "sec-frontier", "schedule": "sec-schedule", "tokens": "sec-examples", "search": "sec-hypervolume"}


def main(runs: list[str]) -> None:
    from vispco import report
    from vispco.report import plots

    INTO.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        payload = report.build(runs)
        page = report.write(payload, Path(scratch) / "report.html")
        # an example whose picture the model can read at all: the first that it answers rightly with every token
        shown = next((n for n, one in enumerate(payload.examples) if one.unpruned_correct), 0)
        for name, picture in screenshots(page, shown):
            keep(picture, name)
        RECORD.write_text(json.dumps({"headings of the page": page_headings()}, indent=2, ensure_ascii=False) + "\n")
        for path in plots.figures(runs, scratch):
            name = path.stem.replace(f"-{Path(runs[0]).resolve().name}", "")
            if name in FIGURES:
                keep(Image.open(path), f"figure-{name}")
            elif name == f"survivors-{shown}":
                keep(Image.open(path), "figure-survivors")


def page_headings() -> list[str]:
    """The headings of the report page, as its template has them."""
    template = (ROOT / "src" / "vispco" / "report" / "page.html").read_text(encoding="utf-8")
    return re.findall(r"<h[1-6][^>]*>([^<]+)</h", template)


def tasks() -> None:
    """A test item of each task, with its question and answer."""
    from matplotlib.figure import Figure

    from vispco.data import TASKS, dataset

    sheet = Figure(figsize=(12, 7), dpi=110, facecolor="#fbfaf6")
    for place, name in enumerate(TASKS):
        sample = dataset("test", tasks=[name])[1]
        axes = sheet.add_subplot(2, 4, place + 1)
        axes.imshow(sample.image)
        axes.set_axis_off()
        axes.set_title(f"{name} ({TASKS[name].group})", fontsize=11, loc="left")
        said = f"{sample.question}\n{sample.answer}"
        axes.text(0.0, -0.03, said, transform=axes.transAxes, va="top", fontsize=9.5)
    sheet.subplots_adjust(left=0.02, right=0.98, top=0.94, bottom=0.07, wspace=0.08, hspace=0.32)
    buffer = io.BytesIO()
    sheet.savefig(buffer)
    keep(Image.open(buffer), "tasks")


def several() -> None:
    """A test item of two pictures and one of a video, with question and answer."""
    from matplotlib.figure import Figure

    from vispco.data import dataset

    sheet = Figure(figsize=(12, 4.4), dpi=110, facecolor="#fbfaf6")
    for row, (name, place, columns) in enumerate((("pair", 0, 6), ("clip", 1, 8))):
        sample = dataset("test", tasks=[name])[place]
        for number, picture in enumerate(sample.images):
            axes = sheet.add_subplot(2, columns, row * columns + number + 1)
            axes.imshow(picture)
            axes.set_axis_off()
            if not number:
                axes.set_title(f"{name} (several)", fontsize=11, loc="left")
                said = f"{sample.question}  {sample.answer}"
                axes.text(0.0, -0.05, said, transform=axes.transAxes, va="top", fontsize=9.5)
    sheet.subplots_adjust(left=0.02, right=0.98, top=0.92, bottom=0.05, wspace=0.06, hspace=0.3)
    buffer = io.BytesIO()
    sheet.savefig(buffer)
    keep(Image.open(buffer), "several")


def screenshots(page: Path, example: int) -> Iterator[tuple[str, Image.Image]]:
    """The top of the page light and dark, its parts, and a phone."""
    sys.path.insert(0, str(ROOT / "tests"))
    from report import browser

    if reason := browser.missing():
        sys.exit(f"No screenshots: {reason}.")
    with browser.chromium() as driver:
        for theme in ("light", "dark"):
            browser.show(driver, page, DESKTOP, 860, dark=theme == "dark")
            _settle(driver)
            yield f"page-{theme}", _shot(driver, 0, DESKTOP, _bottom(driver, "sec-examples"))
            if theme == "light":
                driver.execute_script("document.querySelectorAll('#thumbs input')[arguments[0]]?.click()", example)
                _settle(driver)
                for name, section in PARTS.items():
                    top, height = _place(driver, section)
                    if name != "page" and height:
                        yield f"page-{name}", _shot(driver, top, DESKTOP, height)
        browser.show(driver, page, PHONE, 844)
        _settle(driver)
        yield "page-phone", _shot(driver, 0, PHONE, 844)


def _settle(driver: Any) -> None:
    driver.execute_script("document.getElementById('budget').dispatchEvent(new Event('input'))")
    time.sleep(1.0)  # pictures decode on their own


def _bottom(driver: Any, name: str) -> int:
    script = "const b = document.getElementById(arguments[0]).getBoundingClientRect(); return b.bottom + scrollY"
    return int(driver.execute_script(script, name)) + 6


def _place(driver: Any, name: str) -> tuple[int, int]:
    script = (
        "const b = document.getElementById(arguments[0]).getBoundingClientRect(); return [b.top + scrollY, b.height]"
    )
    top, height = driver.execute_script(script, name)
    return int(top), int(height)


def _shot(driver: Any, top: int, width: int, height: int) -> Image.Image:
    clip = {"x": 0, "y": top, "width": width, "height": height, "scale": 1}
    asked = {"format": "png", "captureBeyondViewport": True, "clip": clip}
    data = driver.execute_cdp_cmd("Page.captureScreenshot", asked)["data"]
    return Image.open(io.BytesIO(base64.b64decode(data)))


def keep(picture: Image.Image, name: str) -> None:
    """As WebP, with less quality until it is small enough."""
    for quality in (90, 80, 65, 50):
        buffer = io.BytesIO()
        picture.convert("RGB").save(buffer, "WEBP", quality=quality, method=6)
        if buffer.tell() < MOST:
            break
    path = INTO / f"{name}.webp"
    path.write_bytes(buffer.getvalue())
    print(f"{path.relative_to(ROOT)}: {picture.width} x {picture.height}, {buffer.tell():,} bytes")


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("Give the folders of runs: python benchmarks/pictures.py runs/demo")
    if sys.argv[1:] == ["tasks"]:
        tasks()
    elif sys.argv[1:] == ["several"]:
        several()
    else:
        main(sys.argv[1:])
