"""The long fault suite of `benchmarks/faults.py`, in small: some kills, full disks, damaged and invented files."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
FEW = """
import json, sys
from pathlib import Path
import fault_commands as commands, fault_disturbances as disturb
from fault_damage import Damage
from fault_readers import fuzz_readers, outside_reads
root, name = Path(sys.argv[1]), "search by a line"
commands.prepare(name)
known = disturb.Undisturbed.run(name, root)
disturb.MOST[name] = 5
print(json.dumps({
    "killed": disturb.kill(name, root, known),
    "full": disturb.no_space(name, root, known, 4),
    "damaged": Damage(name, root).read(3, 1),
    "fuzzed": fuzz_readers(root, 1500),
    "outside": outside_reads(root),
}))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="forks, and looks into /proc")
def test_kills_full_disks_and_damaged_files_lose_nothing(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", FEW, str(tmp_path)], cwd=BENCHMARKS, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["killed"]["kills"] == 5
    assert found["full"]["disk_full"] == 4
    assert found["damaged"]["damaged_files"] >= 40
    assert found["fuzzed"]["fuzzed"] == 1500
    wrong = ("lost", "repeated", "different_numbers", "left_behind", "corrupt", "raw", "raw_exceptions", "hangs")
    wrong += ("silently_wrong", "unnamed", "outside_reads")
    assert {f"{part} {key}": kind[key] for part, kind in found.items() for key in wrong if kind.get(key)} == {}
