"""A search from the command line leaves all that its page, its deployment and its repetition need."""

from __future__ import annotations

import json

import pytest

from cli.invoking import Invoke
from vispco import __version__
from vispco.report import build
from vispco.timing.tables import time_line, with_times
from vispco.timing.timing import BenchRow

SMALL = ("--tasks", "attribute", "--samples", "2", "--test", "2")


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    return tmp_path_factory.mktemp("runs") / "search"


@pytest.fixture
def run(searched, invoke: Invoke):
    if not (searched / "frontier.json").exists():
        done = invoke(
            *("search", "tiny-llava", "--out", searched, "--mode", "line", "--kernel", "single", "--budgets", "0.5"),
            *(*SMALL, "--examples", "1", "--seed", "7", "--json"),
        )
        assert done.code == 0, done.err
        assert len(done.json["points"]) == 1
    return searched


def test_config_json_says_how_the_run_was_made(run):
    config = json.loads((run / "config.json").read_text())
    assert config["model"] == "tiny-llava"
    assert config["seed"] == config["options"]["seed"] == 7
    assert config["command"][:3] == ["vispco", "search", "tiny-llava"]
    assert config["versions"]["vispco"] == __version__
    assert {"torch", "transformers", "python"} <= set(config["versions"])
    assert {"cores", "device", "threads"} <= set(config["machine"])
    assert config["cost"]["name"] == "exact"
    assert config["search_seconds"] > 0
    assert config["options"]["kernel"] == "single"


def test_its_page_shows_examples_and_provenance(run):
    payload = build([run])
    (example,) = payload.examples
    assert [state.budget for state in example.states] == [0.5]
    (source,) = payload.provenance
    assert source.seed == 7
    assert source.command.startswith("vispco search tiny-llava")
    assert payload.runs[0].model == "tiny-llava"
    assert payload.methods[0].seconds > 0


def test_it_ends_with_milliseconds_beside_flops(run, invoke):
    """The same command of a finished run: only times are measured again."""
    given = ("search", "--config", run / "config.json", "--out", run)
    unpruned, pruned = invoke(*given, "--json").json["timing"]
    assert (unpruned["configuration"], pruned["budget"]) == ("unpruned", 0.5)
    assert min(unpruned["ttft_ms"]["p50"], pruned["ttft_ms"]["p50"]) > 0
    assert pruned["flops"] <= 0.5
    rows = [BenchRow(**unpruned), BenchRow(**pruned)]
    columns, cells = with_times((("FLOPs", "accuracy"), [("49%", "90%")]), rows)
    assert columns[1] == "first token, ms"
    assert "×" in cells[0][1]
    assert "unpruned" in time_line(rows)


def test_its_config_repeats_it(run, invoke, tmp_path):
    done = invoke("search", "--config", run / "config.json", "--out", tmp_path / "again", "--examples", "0", "--json")
    assert done.code == 0, done.err
    first = json.loads((run / "frontier.json").read_text())["points"][0]
    again = done.json["points"][0]
    assert again["schedule"] == first["schedule"]
    assert again["evaluation"]["accuracy"] == first["evaluation"]["accuracy"]
    assert not (tmp_path / "again" / "examples.json").exists()


def test_a_bench_of_it_is_on_its_page(run, invoke):
    done = invoke(
        *("bench", "tiny-llava", "--pruner", run, "--budgets", "0.5", "--schedule", "single:2:0.5"),
        *("--tasks", "attribute", "--rounds", "1", "--new-tokens", "2", "--no-memory", "--json"),
        *("--out", run / "bench.json"),
    )
    assert done.code == 0, done.err
    rows = {row["configuration"]: row for row in done.json["rows"]}
    assert list(rows) == ["unpruned", "search 50%", "fastv single:2:0.5"]
    found = rows["search 50%"]
    assert found["flops"] <= 0.5
    assert found["speedup"]["language_implied"] == pytest.approx(1 / found["flops"])
    assert found["parts_ms"]["predictor"] > 0  # its planner solves each sample's budget
    assert found["peak_bytes"] is None
    assert done.json["options"]["rounds"] == 1
    (table,) = build([run]).bench
    assert {"ttft_ms p50", "speedup ttft", "speedup ttft_implied", "kv_bytes"} <= set(table.columns)


def test_what_is_exported_is_read_by_every_pruner_option(run, invoke, tmp_path):
    file, folder = tmp_path / "half.json", tmp_path / "half"
    exported = invoke("export", run, "--budget", "0.5", "--out", file, "--json")
    assert exported.json["planner"]["schedule"]["retention"][0] == 1.0
    assert exported.json["chain"] == {"name": "fastv"}
    assert invoke("export", run, "--budget", "0.5", "--out", folder, "--json").json["planner"]["kind"] == "shapes"
    small = ("--tasks", "attribute", "--limit", "2", "--json")
    done = [invoke("evaluate", "tiny-llava", "--pruner", pruner, *small) for pruner in (file, folder)]
    done.append(invoke("evaluate", "tiny-llava", "--pruner", run, "--budget", "0.5", *small))
    assert [each.code for each in done] == [0, 0, 0], [each.err for each in done]
    assert all(0.4 < each.json["fraction"]["exact"] <= 0.51 for each in done)
    timed = invoke(
        *("bench", "tiny-llava", "--pruner", file, "--tasks", "attribute", "--rounds", "1", "--new-tokens", "2"),
        *("--no-memory", "--json", "--out", tmp_path / "bench.json"),
    )
    assert [row["configuration"] for row in timed.json["rows"]] == ["unpruned", "half.json"]
    wrong = invoke("evaluate", "tiny-llava", "--schedule", file, *small)
    assert "is a pruner, with a scorer of its own" in wrong.err
