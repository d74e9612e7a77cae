"""How much faster is the default search with two processes (torchrun) on two cores, one thread each?

python benchmarks/ranks.py [--samples 64] [--rounds 2]

Two figures: by the clock, which needs a machine without other work, and by processor time, which does not: between two
places where the ranks wait for one another, the slowest rank counts.
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
from typing import Any

from figures import Figure, write

SEED = 0


def worker(folder: str, samples: int) -> None:
    """The search itself; every rank notes its processor time between two gatherings, the first one tells its seconds."""
    import torch

    import vispco
    from vispco.data import dataset
    from vispco.search import ranks
    from vispco.search.run_search import search

    torch.set_num_threads(1)
    model, processor = vispco.load("tiny-qwen")
    rows = dataset("calibration", limit=max(1, samples // 8))[:samples]
    gather, parts, since = ranks.gather, [], time.process_time()

    def noted(own: Any) -> Any:
        nonlocal since
        parts.append(time.process_time() - since)
        found = gather(own)
        since = time.process_time()  # waiting is not work
        return found

    ranks.gather = noted
    began = time.perf_counter()
    search(model, processor, rows, budgets=(0.3, 0.4, 0.5, 0.7), directory=folder, test=rows[:32], seed=SEED)
    seconds = time.perf_counter() - began
    parts.append(time.process_time() - since)
    rank = os.environ.get("RANK", "0")
    Path(f"{folder}.{rank}.parts").write_text(json.dumps(parts))
    if rank == "0":
        print(json.dumps({"seconds": seconds}))


def launch(ranks: int, folder: Path, samples: int) -> tuple[float, float]:
    """Seconds of a search in a number of processes, without their start: by the clock, and by processor time."""
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [*launcher, __file__, "--folder", str(folder), "--samples", str(samples)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    parts = [json.loads(Path(f"{folder}.{rank}.parts").read_text()) for rank in range(ranks)]
    slowest = sum(max(part) for part in zip(*parts, strict=True))
    return float(json.loads(done.stdout.splitlines()[-1])["seconds"]), slowest


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
    busy: dict[int, list[float]] = {1: [], 2: []}
    same = []
    with tempfile.TemporaryDirectory() as place:
        for number in range(given.rounds):
            for ranks in (1, 2):
                clock, processor = launch(ranks, Path(place) / f"{number}-{ranks}", given.samples)
                seconds[ranks].append(clock)
                busy[ranks].append(processor)
            found = [
                json.loads((Path(place) / f"{number}-{r}" / "frontier.json").read_text())["points"] for r in (1, 2)
            ]
            same.append(all(a["schedule"] == b["schedule"] for a, b in zip(*found, strict=True)))

    def ratio(taken: dict[int, list[float]]) -> float:
        return statistics.median(one / two for one, two in zip(taken[1], taken[2], strict=True))

    figures = {
        "two ranks vs one": Figure(ratio(seconds), "higher", 1.7, "ratio"),
        "two ranks vs one, processor time": Figure(ratio(busy), "higher", 1.7, "ratio"),
        "identical schedules": Figure(statistics.mean(same), "higher", 1.0, "share"),
    }
    write("ranks", figures, {"seconds": seconds, "processor seconds": busy, "samples": given.samples}, SEED)


if __name__ == "__main__":
    main()
