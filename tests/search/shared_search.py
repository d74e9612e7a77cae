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
from vispco.search.joint.joint_settings import JointSettings
from vispco.search.run_search import search
from vispco.search.search_spec import Effort

EFFORT = Effort(
    batch_size=4,
    joint=JointSettings(
        levels=(0.3, 0.6),
        ranking_levels=(0.3,),
        table_levels=(),
        rungs=(4, 8, 8),
        shapes=2,
        chains=2,
        neighbours=4,
        shortlist=(3, 2),
        anchors=2,
    ),
)
SCORERS = ("fastv", "divprune+fastv", "cdpruner")


def main(folder, samples):
    torch.set_num_threads(1)
    model, processor = vispco.load("tiny-qwen")
    rows = dataset("calibration", limit=max(1, int(samples) // 8))[: int(samples)]
    began = time.perf_counter()
    asked = {"scorers": SCORERS, "budgets": [0.4, 0.6], "effort": EFFORT}
    search(model, processor, rows, directory=folder, test=rows[:4], **asked)
    if os.environ.get("RANK", "0") == "0":
        sys.stdout.write(json.dumps({"seconds": time.perf_counter() - began}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
