"""A search, run by tests under torchrun: `shared_search.py FOLDER SAMPLES`; prints its seconds."""

import json
import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import torch

import vispco
from vispco.data import dataset
from vispco.search.run import search
from vispco.search.spec import Effort
from vispco.search.table.scouting import ScoutingSettings

EFFORT = Effort(
    batch_size=4,
    scouting=ScoutingSettings(anchors=2, scouts=4, shortlist=2, budgets=(0.5,), explore=6),
)


def main(folder, samples):
    torch.set_num_threads(1)
    model, processor = vispco.load("tiny-qwen")
    rows = dataset("calibration", limit=max(1, int(samples) // 8))[: int(samples)]
    began = time.perf_counter()
    search(model, processor, rows, budgets=[0.4, 0.6], directory=folder, test=rows[:4], effort=EFFORT)
    if os.environ.get("RANK", "0") == "0":
        sys.stdout.write(json.dumps({"seconds": time.perf_counter() - began}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
