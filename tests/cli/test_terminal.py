"""Every command of the README and the docs, typed at 80 columns in a pseudo-terminal: it works, and nothing is cut off.

They run one after another in one process, each page in a folder of its own, with less to do than typed: few items, one
round, one budget. A command with the same options and other values runs
once; a slow one that is always shown in one form runs as it is first typed.
"""

import fcntl
import json
import os
import pty
import re
import shutil
import struct
import subprocess
import sys
import termios

import pytest
from PIL import Image

from docs.pages import PAGES, ROOT
from docs.test_code import lay_out, lines
from real.files import write_benchmarks

COLUMNS = 80
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[()][A-Z0-9]")
ONCE = ("bench", "check", "demo", "profile", "train")  # slow, and always shown in one form: as first typed
BAR = re.compile(r"\x1b\[\?25l.*?\x1b\[\?25h", re.DOTALL)  # what a bar redraws may be shortened
NO_TASKS = ("ask", "check", "export", "info", "plot", "report", "zoo")
LITTLE = (
    *("--set", "descent.outer=1", "--set", "descent.explore=2", "--set", "training.steps=1", "--set", "batch_size=4"),
    *(
        "--set",
        "joint.levels=[0.25]",
        "--set",
        "joint.ranking_levels=[0.25]",
        "--set",
        "joint.table_levels=[]",
        "--set",
        "joint.rungs=[2,2,2]",
    ),
    *("--set", "joint.shapes=1", "--set", "joint.chains=1", "--set", "joint.neighbours=1"),
    *("--set", "one_chain.anchors=2", "--set", "one_chain.shapes=4"),
)
# Added to what is typed; of an option that is given twice, the last counts. Tasks are added where no file is named.
SMALL = {
    "ask": ("--rounds", "1", "--max-new-tokens", "2"),
    "bench": ("--budgets", "0.5", "--rounds", "1", "--new-tokens", "2", "--no-memory"),
    "check": (),
    "compare methods": (
        *("--methods", "fastv", "--budgets", "0.5", "--draws", "0", "--search", "none", "--rounds", "0"),
        *("--compensations", "none"),
        *("--samples", "1", "--test", "1", "--overwrite"),
    ),
    "compare searches": (
        *("--searches", "vtw,random-2", "--budgets", "none", "--beyond", "1", "--samples", "1", "--test", "1"),
        "--overwrite",
    ),
    "demo": (
        *("--budgets", "0.5", "--timed", "0.5", "--samples", "2", "--test", "1", "--trials", "2", "--rounds", "1"),
        *(
            "--batch-size",
            "1",
            "--examples",
            "1",
            "--scorer",
            "fastv",
            "--mode",
            "line",
            "--kernel",
            "single",
            "--overwrite",
        ),
    ),
    "evaluate": ("--limit", "1"),
    "export": (),
    "info": (),
    "plot": (),
    "profile": ("--batches", "1", "--rounds", "3", "--tokens", "64"),
    "report": (),
    "search": ("--budgets", "0.5", "--samples", "2", "--test", "1", "--examples", "0", "--overwrite", *LITTLE),
    "sweep": ("--limit", "1", "--trials", "2", "--workers", "0"),
    "train": ("--steps", "1", "--samples", "2", "--batch-size", "2", "--overwrite"),
    "zoo list": (),
    "zoo train": ("--steps", "1"),
}
# Asked for their help, with the reason.
HELP_ONLY = {
    "paper": "it runs a dozen commands; tests/report/paper writes its page",
    "recommend": "tests/cli/test_recommend.py runs it",
    "play": "it serves a page until it is stopped; tests/serving/play drives it",
    "serve": "it answers requests until it is stopped; tests/serving drives it",
    "export runs/one --budget 0.5 --for": "the same; tests/serving/test_engine_flags.py reads it",
    "search MODEL --data mine.jsonl": "tests/cli/test_own_benchmark.py runs it",
    "search $M --servable": "tests/search/joint runs it",
    "zoo get": "it downloads; tests/models/test_smol.py drives it",
    "vllm-args": "it prints one long line for another program; tests/vllm_plugin reads it",
}
# The reader's own model and database are what is at hand here.
REPLACED = {
    "Qwen/Qwen2.5-VL-3B-Instruct": "tiny-qwen",
    "./my-model": "tiny-qwen",
    "MODEL": "tiny-qwen",
    "postgresql+psycopg://USER@HOST/NAME": "sqlite:///sweep.db",
}
# Runs that a page reads and another one makes, by the name that the README's commands give them; others are its `one`.
OF_README = {
    "sweep": "sweep",
    "methods-tiny-qwen": "methods-tiny-qwen",
    "dynamic": "tiny-qwen-dynamic-llava",
    "tiny-qwen-sparsevlm": "qwen-3b",
}
RUN_ALL = """
import os, sys, time
os.environ["BROWSER"] = "true"
from vispco.cli import main
from vispco.data.dataset import PER_TASK
PER_TASK["test"] = 1
for line in sys.stdin.read().splitlines():
    folder, *words = line.split("\\t")
    os.chdir(folder)
    sys.argv, began = ["vispco", *words], time.process_time()
    print("\\n$ " + " ".join(sys.argv), flush=True)
    try:
        main.run()
    except SystemExit as left:
        if left.code:
            print("EXIT", left.code, flush=True)
    with open(os.path.join(os.path.dirname(folder), "seconds.txt"), "a") as file:
        print(f"{time.process_time() - began:.2f}", *sys.argv[1:], file=file)
"""


def typed(commands) -> str:
    """What a terminal of 80 columns shows of (folder, words), one after another in one process."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env |= {"TERM": "xterm", "HF_HUB_OFFLINE": "1"}
    process = subprocess.Popen(
        [sys.executable, "-c", RUN_ALL], stdin=subprocess.PIPE, stdout=slave, stderr=slave, env=env
    )
    os.close(slave)
    process.stdin.write("\n".join("\t".join([str(folder), *words]) for folder, words in commands).encode())
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
    return shown.decode(errors="replace")


def command_of(words) -> str:
    return " ".join(words[: 2 if words[0] in ("compare", "zoo") else 1])


def small(words):
    """The command as it is typed, with less to do: what is added here takes the place of what was typed."""
    if "--for" in words or any(
        " ".join(words).startswith(start) for start in HELP_ONLY
    ):  # flags of an engine: one line
        return [*command_of(words).split(), "--help"]
    added = list(SMALL[command_of(words)])
    if words[0] == "sweep" and not {"tpe", "random"} & set(words):
        added += ["--strategy", "random"]  # a whole grid takes minutes
    if words[0] == "search" and not {"--mode", "--scorers"} & set(words):
        added += ["--scorers", "fastv,divprune+fastv"]  # of fourteen chains
    if words[0] not in NO_TASKS and "--data-root" not in words and not any(".tsv" in word for word in words):
        added += ["--tasks", "word"]
    replaced = {word for word in added if word.startswith("--") and word != "--set"}
    kept, given = [], iter(words)
    for word in given:
        if word in (*replaced, "--device", "--dtype"):
            next(given)  # its value
        else:
            kept.append(REPLACED.get(word, word))
    return [*kept, *added]


def reading(word, made):
    """A word that names a run: one that the page has not made is one that the README has."""
    named = re.search(r"runs/([\w-]+)", word)
    if named is None or any(word.startswith(each) for each in made):
        return word
    return word.replace(named[0], f"../README/runs/{OF_README.get(named[1], 'one')}")


def lay_out_page(folder):
    """The files that the commands of the pages read."""
    folder.mkdir()
    lay_out(folder)
    write_benchmarks(folder / "LMUData")
    for name in ("MMBench_DEV_EN", "ChartQA_TEST"):
        shutil.copy(folder / "LMUData" / f"{name}.tsv", folder)
    shutil.copy(folder / "ChartQA_TEST.tsv", folder / "ChartQA.tsv")
    rows = json.loads((folder / "llava_instruct_150k.json").read_text())
    for row in rows:
        row["image"] = f"train2017/{row['image']}"
    (folder / "conversations.json").write_text(json.dumps(rows))
    shutil.copy(ROOT / "benchmarks" / "configs" / "Qwen2.5-VL-3B-config.json", folder)
    scorer = re.search(r"```python\n(.*?)```", (ROOT / "docs" / "adding-a-scorer.md").read_text(), re.DOTALL)
    (folder / "calm.py").write_text(scorer[1])
    for name in ("photo.png", "photo.jpg"):
        Image.new("RGB", (150, 90), "teal").save(folder / name)


@pytest.fixture(scope="module")
def shown(tmp_path_factory):
    place = tmp_path_factory.mktemp("terminal")
    commands: dict = {}
    for page in PAGES:
        folder, made = place / page.stem, []
        for words in filter(None, lines(page)):
            if not folder.exists():
                lay_out_page(folder)
            found = small(words)
            out = found.index("--out") if "--out" in found else len(found)
            read = [reading(word, made) if index != out + 1 else word for index, word in enumerate(found)]
            options = sorted({word for word in read if word.startswith("--") and word != "--set"})
            paths = [word for word in read[1:] if "runs/" in word and found[0] in ("report", "plot")]
            key = (command_of(found), *(() if found[0] in ONCE and "--help" not in found else (*options, *paths)))
            if key not in commands:
                commands[key] = (folder, read)
                made += [*found[out + 1 : out + 2], *(["runs"] if page == PAGES[0] else [])]
    return typed(commands.values()), [words for _, words in commands.values()]


def test_nothing_is_cut_off(shown):
    raw, _ = shown
    text, still = CONTROL.sub("", raw), CONTROL.sub("", BAR.sub("", raw))
    wide = [line for part in text.splitlines() for line in part.split("\r") if len(line.rstrip()) > COLUMNS]
    assert [line for line in wide if not line.startswith("$ ")] == []
    tables = [line for line in still.splitlines() if "…" in line]
    assert tables == []


def test_every_command_of_the_pages_was_typed_and_worked(shown):
    text, commands = CONTROL.sub("", shown[0]), shown[1]
    assert "Traceback" not in text
    assert "EXIT" not in text, text[max(0, text.index("EXIT") - 1500) : text.index("EXIT") + 20]
    assert text.count("$ vispco ") == len(commands)
    helped = {command_of(words) for words in commands if words[-1] == "--help"}
    only = {command_of(start.split()) for start in HELP_ONLY}
    assert helped == only
    assert {command_of(words) for words in commands} == {*SMALL, *only}
