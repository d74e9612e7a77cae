"""What a demo keeps in its folder, and what it leads with."""

import json

import pytest

from vispco.core.errors import InvalidInputError
from vispco.core.runs.run_folder import RunFolder
from vispco.evaluation.task_spec import CalibrationSpec, TaskSpec
from vispco.models.model_spec import ModelSpec
from vispco.report.demo.demo_job import DemoJob, _finished_stages
from vispco.report.demo.demo_options import DemoOptions
from vispco.report.demo.outcome import large_layers


def identity(**options):
    job = DemoJob(
        model=ModelSpec("tiny-qwen"), options=DemoOptions(**options), tasks=TaskSpec(), calibration=CalibrationSpec()
    )
    return job.identity()


def test_a_finished_stage_is_known_to_the_next_run(tmp_path):
    assert _finished_stages(tmp_path / "demo.json") == {}
    (tmp_path / "demo.json").write_text(json.dumps({"identity": {}, "stages": {"search": 3.0}}))
    assert _finished_stages(tmp_path / "demo.json") == {"search": 3.0}


def test_another_demo_in_the_folder_is_refused_by_what_differs(tmp_path):
    with RunFolder(tmp_path / "demo").claim("demo", identity(seed=0)) as folder:
        folder.write_json("demo.json", {"identity": identity(seed=0), "stages": {"search": 3.0}})
    with (
        pytest.raises(InvalidInputError, match=r"seed: 0 there, 1 here.*Give another folder"),
        RunFolder(tmp_path / "demo").claim("demo", identity(seed=1)),
    ):
        pass


@pytest.mark.parametrize("text", ["{", '{"identity": {}}'])
def test_a_damaged_list_is_named(tmp_path, text):
    (tmp_path / "demo.json").write_text(text)
    with pytest.raises(InvalidInputError, match=r"demo\.json is damaged"):
        _finished_stages(tmp_path / "demo.json")


def test_a_demo_leads_with_what_large_layers_gain_where_it_timed_them(tmp_path):
    found = {"budget": 0.5, "speedup": 1.9, "unpruned_ms": 2000.0, "pruned_ms": 1050.0}
    (tmp_path / "bench.json").write_text(json.dumps({"rows": [], "large_layers": found}))
    assert "50% of the FLOPs come 1.90 × as fast" in large_layers(tmp_path)
    assert "starting operations" in large_layers(tmp_path)
    (tmp_path / "bench.json").write_text(json.dumps({"rows": []}))
    assert large_layers(tmp_path) == ""
