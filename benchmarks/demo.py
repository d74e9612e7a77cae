"""How long the demo takes on this machine after installation, how large its page is, how fast `vispco --help` is.

    python benchmarks/demo.py [--keep DIR] [--threads N]

The demo runs as a person runs it: `vispco demo`, in a process of its own, into a fresh folder. Its page must show what was
searched beside what was swept, examples and times, or nothing is written.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from figures import Figure, write

STARTS = 9  # of `vispco --help`, after one that fills the disk's cache


def vispco(*arguments: str) -> tuple[float, str]:
    """Seconds of a command, and what it printed."""
    command = [sys.executable, "-m", "vispco.cli.main", *arguments]
    environment = {key: value for key, value in os.environ.items() if key != "OMP_NUM_THREADS"}
    start = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    return time.perf_counter() - start, done.stdout


def shown(page: str) -> dict[str, Any]:
    """What is on the page, of its parts."""
    match = re.search(r'id="payload">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    data = json.loads(match[1])
    kinds = sorted(run["kind"] for run in data["runs"])
    assert kinds == ["empirical", "searched"], kinds
    assert data["examples"], "no examples"
    assert len(data["bench"][0]["rows"]) == 4, "not three budgets beside the unpruned model"
    return {
        "points": {run["kind"]: len(run["points"]) for run in data["runs"]},
        "examples": len(data["examples"]),
        "hypervolume": {row["kind"]: row["hypervolume"] for row in data["methods"]},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, default=None, help="a folder for the demo, which must not be there yet")
    parser.add_argument("--threads", type=int, default=2)
    given = parser.parse_args()
    starts = [vispco("--help")[0] for _ in range(STARTS + 1)][1:]
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.keep or Path(temporary) / "demo"
        assert not folder.exists(), f"{folder} is there already"
        seconds, out = vispco("demo", "--out", str(folder), "--threads", str(given.threads), "--json")
        found = json.loads(out)
        page = Path(found["report"])
        details = {
            "help_seconds": starts,
            "threads": given.threads,
            "stages": json.loads((folder / "demo.json").read_text())["stages"],
            "rows": found["rows"],
            "page": shown(page.read_text(encoding="utf-8")),
        }
        figures = {
            "seconds": Figure(seconds, "lower", 360, "seconds"),
            "page_bytes": Figure(page.stat().st_size, "lower", None, "bytes"),
            "help_seconds": Figure(statistics.median(starts), "lower", 0.5, "seconds"),
        }
    write("demo", figures, details, seed=0)


if __name__ == "__main__":
    main()
