"""Videos from frames: what a model is handed, and search, evaluation and deployment on it."""

from __future__ import annotations

import json

import pytest
import torch
import transformers as tf
from PIL import Image

import vispco
from tiny import CLIP, TEXT
from vispco import InvalidInputError, Pruner, Schedule
from vispco.data import dataset
from vispco.evaluation import TaskEvaluator
from vispco.evaluation.encoded import encode
from vispco.evaluation.survivors import token_grid
from vispco.families import family_of
from vispco.models.frames import FrameProcessor
from vispco.models.processor import JoinedProcessor
from vispco.scorers.allocation import picture_sizes
from vispco.search import search

MODELS = ("qwen2_5_vl", "llava_next_video", "llava_onevision")


def small(name, size):
    """A random model of a class that takes videos, with the shipped tokenizer."""
    text = {**TEXT, "vocab_size": size}
    if name == "llava_next_video":
        config = tf.LlavaNextVideoConfig(
            text_config=tf.LlamaConfig(**text), vision_config=tf.CLIPVisionConfig(**{**CLIP, "image_size": 16}),
            image_token_id=5, video_token_id=8, image_grid_pinpoints=[[16, 32], [32, 16]],
        )  # fmt: skip
        return tf.LlavaNextVideoForConditionalGeneration(config)
    vision = tf.SiglipVisionConfig(
        **{**CLIP, "image_size": 20}, vision_use_head=False
    )  # five cells a side, pooled to three
    config = tf.LlavaOnevisionConfig(
        text_config=tf.Qwen2Config(**text), vision_config=vision, image_token_id=5, video_token_id=8
    )
    return tf.LlavaOnevisionForConditionalGeneration(config)


@pytest.fixture(scope="module", params=MODELS)
def taught(request):
    """(model, processor) of a class that takes videos."""
    model, processor = vispco.load("tiny-qwen")
    if request.param == "qwen2_5_vl":
        return model, processor
    torch.manual_seed(0)
    model = small(request.param, model.config.text_config.vocab_size).eval()
    model.generation_config.eos_token_id = processor.tokenizer.eos_token_id
    model.generation_config.pad_token_id = 0
    return model, JoinedProcessor(None, processor.tokenizer, model.config, FrameProcessor(None, model.config))


@pytest.fixture(scope="module")
def clips():
    return list(dataset("test", "clip", 4))


def test_frames_become_temporal_patches():
    """Each patch holds two neighbouring frames; a frame twice is what the processor of pictures makes of one picture."""
    _, processor = vispco.load("tiny-qwen")
    first, second = (Image.new("RGB", (98, 98), color) for color in ("red", "blue"))
    tensors, counts = processor.video_processor([[first, second, second]])
    patches = tensors["pixel_values_videos"].view(2, 49, 3, 2, 14 * 14)
    single = [processor.image_processor(images=[each], return_tensors="pt")["pixel_values"] for each in (first, second)]
    alone = [each.view(49, 3, 2, 14 * 14) for each in single]
    assert torch.equal(patches[0, :, :, 0], alone[0][:, :, 0])
    assert torch.equal(patches[0, :, :, 1], alone[1][:, :, 1])
    assert torch.equal(patches[1], alone[1])  # the third frame, and itself again
    assert tensors["video_grid_thw"].tolist() == [[2, 7, 7]]
    assert tensors["second_per_grid_ts"].tolist() == [1.0]
    assert counts == [98]
    assert processor.video_processor([[first, second]], 8.0)[0]["second_per_grid_ts"].tolist() == [0.25]


def test_frames_are_those_of_the_models_own_processor():
    """Where torchvision is installed: the same grid and tokens, and pixels up to how the two scale."""
    pytest.importorskip("torchvision", reason="torchvision is not installed")
    _, processor = vispco.load("tiny-qwen")
    frames = list(dataset("test", "clip", 1)[0].images)
    own = tf.AutoVideoProcessor.from_pretrained(vispco.models.path("tiny-qwen"))(
        videos=[frames], do_sample_frames=False, return_tensors="pt"
    )
    found, _ = processor.video_processor([frames])
    assert own["video_grid_thw"].tolist() == found["video_grid_thw"].tolist()
    assert (own["pixel_values_videos"] - found["pixel_values_videos"]).abs().mean() < 0.02


def test_a_video_is_one_placeholder_and_its_layout_knows_frames(taught, clips):
    model, processor = taught
    batch = encode(model, processor, clips[:2])
    layout = family_of(model).layout(model, batch.inputs)
    assert "pixel_values_videos" in batch.inputs
    assert "pixel_values" not in batch.inputs
    assert layout.num_visual == batch.num_visual
    sizes = picture_sizes(layout)
    name = model.config.model_type
    newline = name == "llava_onevision"
    assert sizes.shape[1] == {"qwen2_5_vl": 4, "llava_next_video": 8, "llava_onevision": 9}[name]
    assert all(len(set(row[: sizes.shape[1] - newline].tolist())) == 1 for row in sizes)
    assert not newline or sizes[:, -1].tolist() == [1, 1]


def test_kept_features_give_the_logits_of_pixels(taught, clips):
    """The store encodes a video once; with its features a pruned model says what it says with pixels."""
    model, processor = taught
    evaluator = TaskEvaluator(model, processor, clips[:3], batch_size=3)
    assert evaluator.store.note is None
    kept, plain = evaluator.store.encode(clips[:3]), encode(model, processor, clips[:3])
    layers = len(family_of(model).layers(model))
    pruner = Pruner("fastv", Schedule.single(1, 0.5, layers), allocation="equal")
    with torch.no_grad(), pruner(model):
        found = [model(**each.inputs, use_cache=False).logits[:, -1] for each in (kept, plain)]
        counts = pruner.token_counts(model)
    assert (found[0] - found[1]).abs().max() <= 1e-4
    assert counts[:, 0].tolist() == list(plain.num_visual)


@pytest.mark.parametrize("name", ["tiny-qwen", "tiny-llava", "tiny-gemma"])
def test_kept_features_of_two_pictures_are_divided_as_pixels_are(name):
    model, processor = vispco.load(name)
    samples = list(dataset("test", "pair", 3))
    kept = TaskEvaluator(model, processor, samples, batch_size=3).store.encode(samples)
    plain = encode(model, processor, samples)
    pruner = Pruner(
        "uniform", Schedule.single(0, 0.25, len(family_of(model).layers(model))), record=True, allocation="equal"
    )
    found = []
    with torch.no_grad(), pruner(model):
        for batch in (kept, plain):
            model(**batch.inputs, use_cache=False)
            found.append(pruner.survivors(model)[-1])
    assert torch.equal(found[0], found[1])
    layout = family_of(model).layout(model, plain.inputs)
    for row, picture, number in zip(found[0], layout.picture_index, layout.num_visual, strict=True):
        each = [int((row & (picture == n)).sum()) for n in range(2)]
        assert abs(each[0] - each[1]) <= 1
        assert sum(each) == Schedule.single(0, 0.25, 1).counts([number])[0, 0]


@pytest.mark.parametrize("allocation", ["score", "equal", "size"])
def test_videos_are_evaluated_under_every_allocation(taught, clips, allocation):
    model, processor = taught
    layers = len(family_of(model).layers(model))
    evaluator = TaskEvaluator(model, processor, clips, batch_size=2, kl=True, details=True)
    full = evaluator()
    pruned = evaluator(Pruner("fastv", Schedule.single(1, 0.5, layers), allocation=allocation))
    assert full.kl == pytest.approx(0, abs=1e-6)
    assert pruned.kl > 0
    assert pruned.fraction["exact"] < 0.8


def test_a_search_on_videos_is_deployed(taught, clips, tmp_path):
    model, processor = taught
    frontier = search(
        model, processor, clips, scorer="fastv", mode="line", kernel="single", budgets=(0.6,), allocation="equal",
        directory=tmp_path / "run",
    )  # fmt: skip
    assert len(frontier) == 1
    assert json.loads((tmp_path / "run" / "config.json").read_text())["scorer"]["allocation"] == "equal"
    pruner = Pruner.from_pretrained(tmp_path / "run", budget=0.6)
    batch = encode(model, processor, clips[:1])
    with pruner(model):
        written = model.generate(**batch.inputs, max_new_tokens=2, do_sample=False)
        counts = pruner.token_counts(model)
    assert written.shape[1] > batch.length
    assert int(counts[0, -1]) < batch.num_visual[0]


def test_a_batch_may_hold_pictures_and_videos(clips):
    model, processor = vispco.load("tiny-qwen")
    both = [clips[0], *dataset("test", "pair", 2), clips[1]]
    together = TaskEvaluator(model, processor, both, batch_size=4, details=True)(None)
    apart = TaskEvaluator(model, processor, both, batch_size=1, details=True)(None)
    assert together.details["predictions"] == apart.details["predictions"]


@pytest.mark.parametrize("task", ["pair", "clip"])
def test_survivors_are_drawn_on_the_first_picture(task):
    model, processor = vispco.load("tiny-qwen")
    batch = encode(model, processor, list(dataset("test", task, 1)))
    _, rows, columns = (batch.inputs.get("image_grid_thw", batch.inputs.get("video_grid_thw"))[0]).tolist()
    place, *size = token_grid(model, batch)
    assert size == [rows, columns]
    assert place.tolist() == list(range(rows * columns))


@pytest.mark.parametrize("name", ["tiny-llava", "tiny-gemma"])
def test_models_without_videos_read_the_frames_as_pictures(name, clips):
    model, processor = vispco.load(name)
    short = clips[0].with_images(clips[0].images[::4])
    batch = encode(model, processor, [short])
    assert batch.inputs["pixel_values"].shape[0] == 2
    assert batch.num_visual == (200,)
    assert picture_sizes(family_of(model).layout(model, batch.inputs)).tolist() == [[100, 100]]


def test_wrong_videos_are_told():
    _, processor = vispco.load("tiny-qwen")
    plain = JoinedProcessor.from_pretrained(vispco.models.path("tiny-llava"))
    frame = Image.new("RGB", (98, 98))
    with pytest.raises(InvalidInputError, match="without frames"):
        processor("<video>", videos=[[]])
    with pytest.raises(InvalidInputError, match="1 video placeholders"):
        processor("<video>", videos=[[frame], [frame]])
    with pytest.raises(InvalidInputError, match="above 0"):
        processor("<video>", videos=[[frame]], fps=0)
    with pytest.raises(vispco.core.errors.UnsupportedModelError, match="Give its frames as images"):
        plain("<video>", videos=[[frame]])
