"""How much faster is the default search with two processes (torchrun) on two cores, one thread each?

python benchmarks/ranks.py [--samples 64] [--rounds 2]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from figures import Figure, write

SEED = 0


def worker(folder: str, samples: int) -> None:
    """The search itself; the first rank tells its seconds."""
    import torch

    import vispco
    from vispco.data import dataset
    from vispco.search.run import search

    torch.set_num_threads(1)
    model, processor = vispco.load("tiny-qwen")
    rows = dataset("calibration", limit=max(1, samples // 8))[:samples]
    began = time.perf_counter()
    search(model, processor, rows, budgets=(0.3, 0.4, 0.5, 0.7), directory=folder, test=rows[:32], seed=SEED)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps({"seconds": time.perf_counter() - began}))


def launch(ranks: int, folder: Path, samples: int) -> float:
    """Seconds of a search in a number of processes, without their start."""
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [*launcher, __file__, "--folder", str(folder), "--samples", str(samples)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"])


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--samples", type=int, default=64)
    options.add_argument("--rounds", type=int, default=2)
    options.add_argument("--folder")
    given = options.parse_args()
    if given.folder:
        worker(given.folder, given.samples)
        return
    seconds: dict[int, list[float]] = {1: [], 2: []}
    same = []
    with tempfile.TemporaryDirectory() as place:
        for number in range(given.rounds):
            for ranks in (1, 2):
                seconds[ranks].append(launch(ranks, Path(place) / f"{number}-{ranks}", given.samples))
            found = [
                json.loads((Path(place) / f"{number}-{r}" / "frontier.json").read_text())["points"] for r in (1, 2)
            ]
            same.append(all(a["schedule"] == b["schedule"] for a, b in zip(*found, strict=True)))
    ratios = [one / two for one, two in zip(seconds[1], seconds[2], strict=True)]
    figures = {
        "two ranks vs one": Figure(statistics.median(ratios), "higher", 1.7, "ratio"),
        "identical schedules": Figure(statistics.mean(same), "higher", 1.0, "share"),
    }
    write("ranks", figures, {"seconds": seconds, "samples": given.samples}, SEED)


if __name__ == "__main__":
    main()
