"""A page opens in a browser, and what the browser prints does not reach the terminal."""

import subprocess
import sys

OPEN = """
import sys
from pathlib import Path
from vispco.cli.console import open_in_browser
print("before")
print(open_in_browser(Path(sys.argv[1])))
print("after", file=sys.stderr)
"""


def opened(page, **environment):
    command = [sys.executable, "-c", OPEN, str(page)]
    return subprocess.run(command, capture_output=True, text=True, env=environment, check=True)


def test_a_browser_that_prints_is_not_heard(tmp_path):
    seen = tmp_path / "seen"
    browser = tmp_path / "browser"
    browser.write_text(f"#!/bin/sh\necho talk; echo more >&2; echo $1 > {seen}\n")
    browser.chmod(0o755)
    done = opened(tmp_path / "page.html", BROWSER=str(browser), PATH="/usr/bin:/bin")
    assert (done.stdout, done.stderr) == ("before\nTrue\n", "after\n")
    assert seen.read_text().strip() == (tmp_path / "page.html").resolve().as_uri()


def test_without_a_screen_nothing_is_opened(tmp_path):
    assert opened(tmp_path / "page.html", PATH="/usr/bin:/bin").stdout == "before\nFalse\n"
