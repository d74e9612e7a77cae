"""Commands of the README and the docs, typed at 80 columns in a pseudo-terminal: nothing is cut off."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest

from docs.pages import PAGES
from docs.test_code import lines

COLUMNS = 80
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")
# Smaller than typed, so that a test ends; a command that is not here is asked for its help.
SMALL = {
    "info": [], "zoo list": [],
    "evaluate": ["--limit", "1", "--tasks", "word,counting", "--method", "fastv"],
    "ask": ["--rounds", "1", "--max-new-tokens", "2"],
}  # fmt: skip
RUN_ALL = """
import sys
from vispco.cli import main
for line in sys.stdin.read().splitlines():
    sys.argv = ["vispco", *line.split("\\t")]
    print("\\n$ " + " ".join(sys.argv), flush=True)
    try:
        main.run()
    except SystemExit as left:
        if left.code:
            print("EXIT", left.code, flush=True)
"""


def typed(commands, folder) -> str:
    """What a terminal of 80 columns shows of commands, one after another in one process."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env |= {"TERM": "xterm", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_ALL], stdin=subprocess.PIPE, stdout=slave, stderr=slave, cwd=folder, env=env
    )
    os.close(slave)
    process.stdin.write("\n".join("\t".join(words) for words in commands).encode())
    process.stdin.close()
    shown = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        shown += part
    process.wait(60)
    os.close(master)
    return CONTROL.sub("", shown.decode(errors="replace"))


def small(words):
    """The command as it is typed, with less to do; or its help."""
    name = next((name for name in SMALL if " ".join(words).startswith(name)), None)
    models = [word for word in words if word.startswith("tiny-")]
    if name is None or (name != "zoo list" and not models):
        end = next((n for n, word in enumerate(words) if word.startswith("-") or not word.isalpha()), len(words))
        plain = words[: min(end, 2 if words[0] in ("compare", "zoo") else 1)]
        return [*plain, "--help"]
    if name == "evaluate":
        return ["evaluate", models[0], *SMALL[name]]
    return [*words, *SMALL[name]]


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    from vispco.data import dataset

    folder = tmp_path_factory.mktemp("terminal")
    sample = dataset("test", limit=1)[0]
    for name in ("photo.png", "photo.jpg"):
        sample.image.save(folder / name)
    commands = dict.fromkeys(tuple(small(words)) for page in PAGES for words in lines(page) if words)
    assert len(commands) > 15
    return typed([list(words) for words in commands], folder), commands


def test_nothing_is_cut_off(shown):
    text, _ = shown
    wide = [line for part in text.splitlines() for line in part.split("\r") if len(line.rstrip()) > COLUMNS]
    typed_lines = [line for line in wide if line.startswith("$ ")]
    assert [line for line in wide if line not in typed_lines] == []
    tables = [line for line in text.splitlines() if "…" in line and "━" not in line]
    assert tables == []


def test_every_command_of_the_pages_was_typed_and_worked(shown):
    text, commands = shown
    assert "Traceback" not in text
    assert "EXIT" not in text, text[max(0, text.index("EXIT") - 800) : text.index("EXIT") + 20]
    assert {words[0] for words in commands} >= {
        "info",
        "ask",
        "search",
        "sweep",
        "evaluate",
        "bench",
        "report",
        "serve",
    }
