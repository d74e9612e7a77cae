"""What does a predictor add to a prefill? On layers of Qwen2.5-VL-3B's dimensions, with random weights.

    python benchmarks/predictor.py [--repeats 5]

The predictor has the size that a search gives it (2,048 samples, eight configurations); their values do not
change its price. Its time is that of the whole plan: looking at the input, choosing, and solving for whole tokens.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from typing import Any

import numpy as np
import torch

from figures import Figure, write
from operation_counts import random_joint_predictor
from prefill import BUDGET, LAYERS, TEXT, VISUAL, build, inputs, timed
from vispco import Pruner, cost
from vispco.pruner.joint_planner import JointPlanner

SAMPLES, ANCHORS = 2048, 8


class Clocked:
    """A planner that adds up its own time."""

    def __init__(self, planner: JointPlanner) -> None:
        self.planner, self.seconds = planner, 0.0

    def __call__(self, *given: Any) -> Any:
        start = time.perf_counter()
        plan = self.planner(*given)
        self.seconds += time.perf_counter() - start
        return plan


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    model, x = build(given.seed), inputs()
    exact = cost.get("exact", model.config)
    predictor = random_joint_predictor(model, ("fastv",), samples=SAMPLES, anchors=ANCHORS)
    joint = JointPlanner(predictor, BUDGET)
    planner = Clocked(joint)
    pruner = Pruner("fastv", planner)
    shares, seconds = [], []
    for repeat in range(given.repeats + 1):
        whole = timed(model, x, None)
        planner.seconds = 0.0
        timed(model, x, pruner)
        if repeat:  # the first round warms up
            shares.append(planner.seconds / whole)
            seconds.append({"unpruned": whole, "plan": planner.seconds})
        print(f"round {repeat}/{given.repeats}", file=sys.stderr, flush=True)
    full = int(exact.full(cost.Workload(TEXT, VISUAL)))
    figures = {
        "predictor.time": Figure(statistics.median(shares), "lower", 0.01, "fraction"),
        "predictor.flops": Figure(
            int(joint.reader.flops(np.array([[TEXT, VISUAL]]))[0]) / full, "lower", 0.01, "fraction"
        ),
        "predictor.parameters": Figure(
            sum(t.numel() for t in predictor.state_dict().values()), "lower", 5e6, "parameters"
        ),
    }
    details = {
        "layers": LAYERS, "text": TEXT, "visual": VISUAL, "budget": BUDGET, "samples": SAMPLES, "anchors": ANCHORS,
        "threads": torch.get_num_threads(), "rounds": seconds,
    }  # fmt: skip
    write("predictor", figures, details, given.seed)


if __name__ == "__main__":
    main()
