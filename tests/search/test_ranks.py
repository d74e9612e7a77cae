"""Two torchrun ranks find what one process finds; one of them writes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.torch import load_file

from vispco.evaluation.frontier import Frontier
from vispco.search.ranks import _parts_by_weight

SCRIPT = Path(__file__).parent / "shared_search.py"
TOLERANCE = 1e-5  # of KL: the batches are the same, the order of some sums is not


def launch(ranks, folder, samples=8):
    launcher = [sys.executable]
    if ranks > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    env = {**os.environ, "OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1"}
    command = [*launcher, str(SCRIPT), str(folder), str(samples)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=env, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])["seconds"]


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("weights", [(), (5.0,), (1.0,) * 7, (7, 7, 7, 7, 21, 14), tuple(range(1, 15))])
def test_work_is_done_once_and_ends_together(weights, size):
    parts = _parts_by_weight(weights, size)
    assert sorted(place for part in parts for place in part) == list(range(len(weights)))
    loads = [sum(weights[place] for place in part) for part in parts]
    assert max(loads) - min(loads) <= max(weights, default=0)


def test_two_ranks_find_what_one_process_finds_and_one_writes(tmp_path):
    launch(1, tmp_path / "one")
    launch(2, tmp_path / "two")
    one, two = (Frontier.load(tmp_path / name / "frontier.json") for name in ("one", "two"))
    assert [point.evaluation.accuracy for point in one.points] == [point.evaluation.accuracy for point in two.points]
    assert [point.schedule for point in one.points] == [point.schedule for point in two.points]
    weights = [load_file(tmp_path / name / "predictor" / "model.safetensors") for name in ("one", "two")]
    for name, tensor in weights[0].items():
        assert tensor.shape == weights[1][name].shape
        assert float((tensor.double() - weights[1][name].double()).abs().max()) <= TOLERANCE, name
    bills = [json.loads((tmp_path / name / "config.json").read_text())["spent"] for name in ("one", "two")]
    assert bills[1]["measured"] == pytest.approx(bills[0]["measured"])
    assert bills[1]["teacher"] == pytest.approx(bills[0]["teacher"])
    names = [sorted(path.name for path in (tmp_path / name).iterdir()) for name in ("one", "two")]
    assert names[0] == names[1]
