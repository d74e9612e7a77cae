"""`optuna-dashboard` opens on the journal of a sweep."""

from __future__ import annotations

import importlib.util
import json
import socket
import subprocess
import sys
import urllib.request

import pytest

from sweep.program import until
from sweep.synthetic import LAYERS, Factory, run_sweep


@pytest.mark.skipif(importlib.util.find_spec("optuna_dashboard") is None, reason="optuna-dashboard is not installed")
def test_the_dashboard_shows_the_study(tmp_path):
    options = {"space": "single", "strategy": "random", "trials": 5, "num_layers": LAYERS}
    run_sweep(Factory(str(tmp_path / "log")), name="seen", directory=tmp_path, workers=0, **options)
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    code = "from optuna_dashboard._cli import main; main()"
    command = [sys.executable, "-c", code, str(tmp_path / "journal.log"), "--host", "127.0.0.1", "--port", str(port)]
    dashboard = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # loopback, whatever the environment says

    def answers():
        assert dashboard.poll() is None, "the dashboard ended by itself"
        try:
            studies.update(json.load(opener.open(f"http://127.0.0.1:{port}/api/studies", timeout=5)))
        except OSError:
            return False
        return True

    studies = {}
    try:
        until(answers, 40)
    finally:
        dashboard.kill()
        dashboard.wait()
    assert [study["study_name"] for study in studies["study_summaries"]] == ["seen"]
