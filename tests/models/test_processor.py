import json
from contextlib import nullcontext
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image
from transformers import pipeline
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import smart_resize

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.data import dataset
from vispco.evaluation.encoded import apply_template
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.models import shipped
from vispco.models.processor import JoinedProcessor, load_processor
from vispco.models.shipped import ONE_OF_EACH_CLASS
from vispco.pruner.pruner_spec import PrunerSpec
from vispco_zoo.answers import answer, prompt
from vispco_zoo.definitions import build_image_processor, build_model
from vispco_zoo.export import save_model
from vispco_zoo.tokenizer import build_tokenizer


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Untrained models, saved as the trained ones are."""
    root = tmp_path_factory.mktemp("zoo")
    for name in ONE_OF_EACH_CLASS:
        save_model(name, build_model(name), root / name)
    return root


def numpy_pixels(name, image):
    """The preprocessing written out by hand."""
    if name == "tiny-qwen3":
        width, height = (round(side / 16) * 16 for side in image.size)
        mean, std = (0.5,) * 3, (0.5,) * 3
    elif name == "tiny-qwen":
        width, height = (round(side / 14) * 14 for side in image.size)
        mean, std = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
    else:
        width = height = 120
        clip = name == "tiny-llava"
        mean = (0.48145466, 0.4578275, 0.40821073) if clip else (0.5,) * 3
        std = (0.26862954, 0.26130258, 0.27577711) if clip else (0.5,) * 3
    filter_ = Image.Resampling.BILINEAR if name == "tiny-gemma" else Image.Resampling.BICUBIC
    pixels = np.asarray(image.resize((width, height), filter_), dtype=np.float32) / 255
    pixels = ((pixels - np.asarray(mean)) / np.asarray(std)).transpose(2, 0, 1)
    if name == "tiny-qwen3":  # the four patches of a token follow each other: [h, w, 2, 2, 3, 8, 8]
        rows = pixels.reshape(3, height // 16, 2, 8, width // 16, 2, 8).transpose(1, 4, 2, 5, 0, 3, 6)
        return np.repeat(rows[:, :, :, :, :, None], 2, axis=5).reshape(-1, 3 * 2 * 8 * 8)
    if name != "tiny-qwen":
        return pixels
    rows = pixels.reshape(3, height // 14, 14, width // 14, 14).transpose(1, 3, 0, 2, 4)  # [h, w, 3, 14, 14]
    return np.repeat(rows[:, :, :, None], 2, axis=3).reshape(-1, 3 * 2 * 14 * 14)


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_pixels_are_what_the_saved_image_processor_says(folders, name):
    image = dataset("train", "word")[0].image
    saved = JoinedProcessor.from_pretrained(folders / name)
    text = prompt(saved, "what word is on the red sign?")
    pixels = saved(text=[text], images=[image])["pixel_values"].numpy()
    expected = numpy_pixels(name, image)
    assert np.allclose(pixels.reshape(expected.shape), expected, atol=1e-5)
    direct = build_image_processor(name)(images=[image], return_tensors="pt")["pixel_values"].numpy()
    assert np.array_equal(pixels, direct)


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_a_saved_folder_loads_by_plain_from_pretrained_and_generates(folders, name):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folders / name, dtype=torch.float32).eval()
    processor = load_processor(folders / name)
    samples = dataset("test", "attribute,chart", limit=2)[:]
    told = answer(model, processor, [s.image for s in samples], [s.question for s in samples])
    assert len(told) == 4
    assert type(model).__name__ == json.loads((folders / name / "config.json").read_text())["architectures"][0]


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_a_batch_gives_each_sample_the_logits_it_has_alone(folders, name):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folders / name, dtype=torch.float32).eval()
    processor = JoinedProcessor.from_pretrained(folders / name)
    samples = dataset("test", "position,table", limit=1)[:]
    texts = [prompt(processor, sample.question) for sample in samples]
    with torch.no_grad():
        both = model(**processor(text=texts, images=[s.image for s in samples])).logits[:, -1]
        for row, text, sample in zip(both, texts, samples, strict=True):
            alone = model(**processor(text=text, images=sample.image)).logits[0, -1]
            assert torch.allclose(row, alone, atol=1e-4)


@pytest.mark.parametrize("name", ["tiny-llava", "tiny-gemma"])
def test_the_joined_processor_agrees_with_autoprocessor(folders, name):
    from transformers import AutoProcessor

    image = dataset("test", "word")[0].image
    joined = JoinedProcessor.from_pretrained(folders / name)
    auto = AutoProcessor.from_pretrained(folders / name, backend="pil")
    text = prompt(joined, "what word is on the red sign?")
    mine, theirs = joined(text=[text], images=[image]), auto(text=[text], images=[image], return_tensors="pt")
    assert mine["input_ids"].tolist() == theirs["input_ids"].tolist()
    assert torch.equal(mine["pixel_values"], theirs["pixel_values"])
    assert set(theirs) <= set(mine) | {"mm_token_type_ids"}


@pytest.mark.parametrize("frames", [1, 2, 5, 8])
@pytest.mark.parametrize("size", [(90, 84), (10, 40), (500, 300)])
def test_a_video_of_qwen3_is_written_and_sized_as_transformers_does(folders, frames, size):
    """Its own processor of videos needs torchvision; its rules do not."""
    processor = JoinedProcessor.from_pretrained(folders / "tiny-qwen3")
    video = [Image.new("RGB", size, (10 * i, 0, 0)) for i in range(frames)]
    found = processor(text="<|video_pad|>what?", videos=[video], fps=4.0)
    time, rows, columns = found["video_grid_thw"][0].tolist()
    bounds = processor.video_processor.settings["size"]
    if frames > 1:  # transformers refuses a single frame
        wanted = smart_resize(
            frames, size[1], size[0], 2, 16, min_pixels=bounds["shortest_edge"], max_pixels=bounds["longest_edge"]
        )
        assert (rows * 8, columns * 8) == wanted
    assert found["pixel_values_videos"].shape == (time * rows * columns, 3 * 2 * 8 * 8)
    marks = {"vision_start": "<|vision_start|>", "vision_end": "<|vision_end|>", "video": "<|video_pad|>"}
    rules = SimpleNamespace(
        video_processor=SimpleNamespace(merge_size=2, temporal_patch_size=2),
        **{f"{name}_token": token for name, token in marks.items()},
    )
    rules._calculate_timestamps = partial(Qwen3VLProcessor._calculate_timestamps, rules)
    metadata = SimpleNamespace(fps=4.0, frames_indices=list(range(frames)))
    given = {"video_grid_thw": found["video_grid_thw"], "video_metadata": [metadata]}
    text = Qwen3VLProcessor.replace_video_token(rules, given, 0) + "what?"
    assert found["input_ids"][0].tolist() == processor.tokenizer(text)["input_ids"]
    assert (found["mm_token_type_ids"] == 2).sum() == time * rows * columns // 4


def test_a_model_of_qwen3_reads_frames(folders):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folders / "tiny-qwen3", dtype=torch.float32).eval()
    processor = JoinedProcessor.from_pretrained(folders / "tiny-qwen3")
    content = [{"type": "video"}, {"type": "text", "text": "what color is the circle?"}]
    text = apply_template(processor, [{"role": "user", "content": content}])
    inputs = processor(text=text, videos=[list(dataset("test", "clip", 1)[0].images)])
    out = model.generate(**inputs, max_new_tokens=2)
    assert out.shape[1] <= inputs["input_ids"].shape[1] + 2


def test_the_chat_of_qwen3_is_qwens(folders):
    processor = JoinedProcessor.from_pretrained(folders / "tiny-qwen3")
    text = prompt(processor, "how many things are red?")
    assert text == (
        "<|im_start|>user\n<|vision_start|><|image_pad|><|vision_end|>how many things are red?<|im_end|>\n"
        "<|im_start|>assistant\n"
    )
    ids = processor.tokenizer(text)["input_ids"]
    assert processor.tokenizer.convert_ids_to_tokens(ids)[:3] == ["<|im_start|>", "user", "\n"]
    assert processor.tokenizer.convert_ids_to_tokens(ids)[-5:] == [
        "<|im_end|>",
        "\n",
        "<|im_start|>",
        "assistant",
        "\n",
    ]
    for token in ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|image_pad|>", "<|video_pad|>", "<|vision_end|>"):
        assert len(processor.tokenizer(token)["input_ids"]) == 1
    assert [processor.tokenizer.eos_token, processor.tokenizer.pad_token] == ["<|im_end|>", "<|endoftext|>"]


def test_one_placeholder_is_needed_for_each_image(folders):
    processor = JoinedProcessor.from_pretrained(folders / "tiny-llava")
    with pytest.raises(InvalidInputError, match="0 image placeholders"):
        processor(text=["<user>where?<assistant>"], images=[Image.new("RGB", (90, 90))])


def test_another_type_of_model_is_refused_in_words():
    from transformers import LlamaConfig

    with pytest.raises(UnsupportedModelError, match="llama"):
        JoinedProcessor(None, build_tokenizer("tiny-qwen"), LlamaConfig())


@pytest.mark.parametrize(
    "text", ["why is the zebra so über-happy, 3.5 times?", "猫はどこ?", "", "x" * 300, "\x00\ufffd"]
)
def test_a_question_outside_the_vocabulary_never_crashes(folders, text):
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folders / "tiny-qwen", dtype=torch.float32).eval()
    processor = load_processor(folders / "tiny-qwen")
    (told,) = answer(model, processor, [Image.new("RGB", (90, 100), "white")], [text])
    assert isinstance(told, str)


def test_unknown_words_are_spelled_and_known_text_survives_a_round_trip():
    tokenizer = build_tokenizer("tiny-qwen")
    assert tokenizer.tokenize("zebra") == ["z", "##e", "##b", "##r", "##a"]
    for text in ("top left", "exit", "42", "yes", "zebra"):
        assert tokenizer.decode(tokenizer(text, add_special_tokens=False)["input_ids"]) == text


@pytest.mark.parametrize("name", ONE_OF_EACH_CLASS)
def test_transformers_own_pipeline_answers_as_the_model_does_pruned_and_unpruned(name):
    model, processor = shipped.load(name)
    sample = dataset("test", "word", limit=1)[0]
    chat = [
        {
            "role": "user",
            "content": [{"type": "image", "image": sample.images[0]}, {"type": "text", "text": sample.question}],
        }
    ]
    pipe = pipeline("image-text-to-text", model=model, processor=processor)
    evaluator = TaskEvaluator(model, processor, [sample], "fastv", details=True)
    pruner = PrunerSpec.usual(name).resolve(model)
    for candidate, block in ((None, nullcontext()), (pruner, pruner(model))):
        expected = evaluator(candidate).details["predictions"][sample.id]
        with block:
            said = pipe(text=chat, max_new_tokens=8, do_sample=False)[0]["generated_text"][-1]["content"]
        assert said.strip() == expected.strip()
