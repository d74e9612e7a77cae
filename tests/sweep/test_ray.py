"""On a real Ray cluster of two nodes, an actor and a node are killed in mid-sweep; the frontier is the same."""

from __future__ import annotations

import importlib.util
import os
import signal
import socket

import pytest

from sweep.program import TESTS, children, start, until
from sweep.synthetic import LAYERS, Factory, evaluated, run_sweep
from vispco.core.errors import InvalidInputError, MissingExtraError
from vispco.evaluation.frontier import Frontier

needs_ray = pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="Ray is not installed: .[ray]")
GRID = {"name": "study", "space": "single", "strategy": "grid", "num_layers": LAYERS}


@pytest.fixture
def cluster(monkeypatch):
    """Two nodes of one CPU each, through Ray's own utility."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS), prepend=os.pathsep)  # where the nodes find the evaluator
    import ray
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    cluster.second = cluster.add_node(num_cpus=1, object_store_memory=80 * 2**20)
    yield cluster
    ray.shutdown()
    cluster.shutdown()


@needs_ray
def test_the_frontier_survives_an_actor_and_a_node(cluster, tmp_path):
    log = str(tmp_path / "log")
    killed = []
    raylet = cluster.second.all_processes["raylet"][0].process.pid

    def disturb(progress):
        """Kill an actor of the first node, then the node of the other: once, all that is running dies."""
        elsewhere = {int(pid) for pid in evaluated(log + ".pids")} - set(children(raylet))
        if progress.settled >= 20 and elsewhere and not killed:
            killed.append("actor")
            os.kill(min(elsewhere), signal.SIGKILL)
        elif progress.settled >= 40 and len(killed) == 1:
            killed.append("node")
            cluster.remove_node(cluster.second, allow_graceful=False)

    found = run_sweep(
        Factory(log, delay=0.05, pids=True),
        directory=tmp_path,
        engine="ray",
        workers=2,
        ray_address=cluster.address,
        on_progress=disturb,
        **GRID,
    )
    assert killed == ["actor", "node"]
    assert len(set(evaluated(log))) == 100
    assert len(evaluated(log)) <= 102, "what the two were at is repeated, and nothing else"
    inline = tmp_path / "inline"
    inline.mkdir()
    assert found == run_sweep(Factory(str(inline / "log")), directory=inline, engine="inline", **GRID)


@needs_ray
def test_ctrl_c_under_ray_leaves_a_frontier_to_go_on_from(tmp_path, monkeypatch):
    """As a terminal does it: to the program, and to all that it has started in its group."""
    monkeypatch.setenv("PYTHONPATH", str(TESTS))
    log = str(tmp_path / "log")
    program = start({"log": log, "delay": 0.05}, directory=str(tmp_path), engine="ray", workers=1, **GRID)
    try:
        until(lambda: len(evaluated(log)) >= 10)
        os.killpg(program.pid, signal.SIGINT)
        assert program.wait(120) != 0
    finally:
        if program.poll() is None:
            os.killpg(program.pid, signal.SIGKILL)
            program.wait()
    left = Frontier.load(tmp_path / "study.frontier.json")
    assert 5 <= len(left) < 100
    before = len(evaluated(log))
    found = run_sweep(Factory(log), directory=tmp_path, engine="inline", **GRID)
    assert len(found) == 100
    assert len(evaluated(log)) - before <= 100 - len(left), "nothing that was entered is evaluated again"


@needs_ray
def test_an_address_where_nothing_answers_is_refused(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(InvalidInputError, match=rf"No Ray cluster answers at 127.0.0.1:{port}: Connection refused"):
        run_sweep(Factory("log"), directory=tmp_path, engine="ray", ray_address=f"127.0.0.1:{port}", **GRID)


@needs_ray
def test_something_else_at_the_address_is_refused_within_seconds(tmp_path, monkeypatch):
    monkeypatch.setattr("vispco.sweep.study.connection_problem.__kwdefaults__", {"grpc": False, "timeout": 0.5})
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(
            InvalidInputError, match=rf"No Ray cluster answers at {address}: nothing answered within 0.5"
        ):
            run_sweep(Factory("log"), directory=tmp_path, engine="ray", ray_address=address, **GRID)


def test_without_ray_the_engine_says_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(MissingExtraError, match=r"needs Ray\. .*pip install '\.\[ray\]'"):
        run_sweep(Factory("log"), directory=tmp_path, engine="ray", **GRID)
