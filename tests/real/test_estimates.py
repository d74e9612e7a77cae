"""What `vispco info` says before anything is run, against what is counted when it is."""

from __future__ import annotations

import json

import pytest
import transformers as tf
from PIL import Image

from real.command import vispco
from real.files import save_small, write_benchmarks
from vispco.core.errors import UnknownNameError
from vispco.families.visual_tokens import visual_tokens
from vispco.models.loading import load
from vispco.models.model_spec import read_config, read_preprocessor
from vispco.search.gradient.training_settings import TrainingSettings
from vispco.search.presets import PRESETS
from vispco.search.search_options import PresetOptions
from vispco.timing.describe_settings import DescribeSettings
from vispco.timing.estimates import _count_parameters, describe

SIZES = [(640, 480), (28, 28), (1, 1), (1024, 77), (2000, 1000)]


@pytest.mark.parametrize("size", SIZES)
def test_visual_tokens_are_those_of_the_image_processor(size):
    config = tf.Qwen2_5_VLConfig(text_config={}, vision_config={"patch_size": 14, "spatial_merge_size": 2})
    processor = tf.Qwen2VLImageProcessorPil()
    said = json.loads(processor.to_json_string())
    grid = processor(images=[Image.new("RGB", size)], return_tensors="pt")["image_grid_thw"]
    assert visual_tokens(config, *size, said) == int(grid.prod()) // 4


@pytest.mark.parametrize("name", ["tiny-qwen", "tiny-llava", "tiny-gemma"])
def test_a_saved_model_has_the_parameters_and_tokens_that_were_told(name):
    model, processor = load(name)
    config = read_config(name)
    assert _count_parameters(config)[0] == sum(p.numel() for p in model.parameters())
    text = processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "what?"}]}], tokenize=False
    )
    ids = processor(text=[text], images=[[Image.new("RGB", (150, 90))]], return_tensors="pt")["input_ids"]
    assert visual_tokens(config, 150, 90, read_preprocessor(name)) == int((ids == config.image_token_id).sum())


def test_the_paper_models_have_their_known_sizes(pytestconfig):
    folder = pytestconfig.rootpath / "benchmarks" / "configs"
    known = {"Qwen2.5-VL-3B": 3_754_622_976, "Qwen2.5-VL-7B": 8_292_166_656, "LLaVA-1.5-7B": 7_063_427_072}
    for name, parameters in known.items():
        assert _count_parameters(read_config(str(folder / f"{name}-config.json")))[0] == parameters


def test_hours_follow_from_flops_and_the_machine_stated(pytestconfig):
    config = read_config(str(pytestconfig.rootpath / "benchmarks" / "configs" / "Qwen2.5-VL-3B-config.json"))
    slow = describe(config, "q", DescribeSettings(tflops=100, utilisation=0.5))["estimates"]
    fast = describe(config, "q", DescribeSettings(tflops=100, utilisation=0.5, gpus=8))["estimates"]
    search = slow["gradient_search"]
    assert search["hours"] == pytest.approx(search["flops"] / 5e13 / 3600)
    assert fast["gradient_search"]["hours"] == pytest.approx(search["hours"] / 8)
    assert fast["grid"]["hours"] == pytest.approx(slow["grid"]["hours"] / 8)
    assert slow["grid"]["configurations"] == 700
    starved = describe(config, "q", DescribeSettings(tflops=100, utilisation=0.5, bandwidth=0.4))["estimates"]
    assert starved["grid"]["hours"] > slow["grid"]["hours"]  # writing answers waits for memory


def test_a_gradient_search_costs_what_was_estimated(tmp_path):
    """Pictures, questions and answers of one size, so that the mean sample is each sample."""
    model = save_small("tiny-llava", tmp_path / "model")
    line = '{"image": "a.png", "question": "what color is it?", "answer": "red"}\n'
    Image.new("RGB", (64, 64)).save(tmp_path / "a.png")
    (tmp_path / "talk.jsonl").write_text(line * 8)
    write_benchmarks(tmp_path / "LMUData", rows=1)
    options = ("--mode", "predictor", "--solver", "lagrangian", "--kernel", "linear", "--budgets", 0.9, "--examples", 0)
    asked = ("--tasks", f"mme={tmp_path / 'LMUData' / 'MME.tsv'}", "--max-new-tokens", 1, "--dtype", "float32")
    done = vispco(
        "search", model, "--data", tmp_path / "talk.jsonl", "--out", tmp_path / "run",
        *options, *asked, "--set", "batch_size=4",
    )  # fmt: skip
    assert done.code == 0, done.err
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    text, visual = config["typical"]
    told = describe(
        read_config(str(model)), "m", DescribeSettings(visual=visual, text=text, answer=2, samples=8, batch_size=4)
    )
    spent = config["spent"]
    trained = spent["teacher"] + spent["forward"] + spent["backward"]
    assert trained == pytest.approx(told["estimates"]["gradient_search"]["flops"])


def config_of(kind):
    return type("Config", (), {"model_type": kind})()


@pytest.mark.parametrize(
    ("kind", "kernel", "options", "row"),
    [
        ("qwen2_5_vl", "steps", {}, PRESETS["qwen"]),
        ("qwen2_5_vl", "multi-step", {}, PRESETS["qwen/multi-step"]),
        ("gemma3", "multi-step", {}, PRESETS["gemma"]),
        ("llava", "single", {}, PRESETS["llava"]),
        ("llava", "single", {"preset": "text"}, PRESETS["text"]),
    ],
)
def test_the_preset_is_the_papers_row_for_the_model(kind, kernel, options, row):
    found, effort = PresetOptions(**options).resolve(config_of(kind), kernel, 160)
    assert found == row
    assert effort.batch_size == row.batch_size == 16
    assert (effort.training.steps, effort.training.rate) == (128, 1e-3)  # few steps of the paper's rate lead nowhere
    long = [*options.pop("change", []), "training.steps=5000"]
    assert PresetOptions(**options, change=long).resolve(config_of(kind), kernel, 160)[1].training.rate == row.rate


def test_single_values_override_a_preset(monkeypatch):
    changes = ["lam=7", "rate=0.5", "batch_size=8", "descent.outer=2", "training.inner=3", "descent.explore=null"]
    row, effort = PresetOptions(change=changes).resolve(config_of("llava"), "single", 160)
    assert (row.lam, row.rate, row.alpha) == (7.0, 0.5, PRESETS["llava"].alpha)
    assert (effort.batch_size, effort.descent.outer, effort.descent.explore) == (8, 2, None)
    assert (effort.training.inner, effort.training.rate, effort.training.steps) == (3, 0.5, 128)
    low = PresetOptions(change=["rate=1e-6"]).resolve(config_of("llava"), "single", 160)[1].training
    assert low.rate == 1e-6  # one that is asked for is never raised
    assert PresetOptions(change=["one_chain.shapes=16"]).resolve(None, "steps", 1)[1].one_chain.shapes == 16
    with pytest.raises(UnknownNameError, match=r"fit\.method"):
        PresetOptions(change=["fit.method=magic"]).resolve(None, "steps", 1)
    monkeypatch.setenv("WORLD_SIZE", "4")  # as accelerate sets it
    plan = PresetOptions().resolve(config_of("llava"), "single", 160)[1].training
    assert (plan.batches, plan.steps) == (4, 128)
    assert isinstance(plan, TrainingSettings)
