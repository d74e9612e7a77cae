"""Opens a page in the user's browser. What the browser prints does not reach the terminal."""

from __future__ import annotations

import os
import sys
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def open_in_browser(page: Path) -> bool:
    """Open a page; False where there is no browser that could show it."""
    screens = ("BROWSER", "DISPLAY", "WAYLAND_DISPLAY")
    if sys.platform.startswith("linux") and not any(os.environ.get(name) for name in screens):
        return False  # a browser for text would take over the terminal
    with _silent_children():
        return webbrowser.open(page.resolve().as_uri())


@contextmanager
def _silent_children() -> Iterator[None]:
    """Processes that start in this block inherit an output that goes nowhere."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {number: os.dup(number) for number in (1, 2)}
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        for number in kept:
            os.dup2(nowhere, number)
        yield
    finally:
        os.close(nowhere)
        for number, copy in kept.items():
            os.dup2(copy, number)
            os.close(copy)
