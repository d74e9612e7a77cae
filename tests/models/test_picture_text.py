"""Folders of classes whose own processors need torchvision: read, written and sized as transformers' rules say."""

import json
from types import SimpleNamespace

import pytest
import torch
from PIL import Image
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil
from transformers.models.idefics3.processing_idefics3 import Idefics3Processor
from transformers.models.internvl.processing_internvl import InternVLProcessor
from transformers.models.llava_onevision.image_processing_pil_llava_onevision import LlavaOnevisionImageProcessorPil
from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.processing_smolvlm import SmolVLMProcessor

import tiny
import vispco
from vispco.data import dataset
from vispco.evaluation.evaluator import TaskEvaluator
from vispco.models.processor import OPTIONS, JoinedProcessor
from vispco_zoo.tokenizer import build_tokenizer

TILE = {"longest_edge": 16}
PICTURES = {
    "internvl": lambda: GotOcr2ImageProcessorPil(size={"height": 16, "width": 16}, max_patches=4),
    "idefics3": lambda: Idefics3ImageProcessorPil(size={"longest_edge": 64}, max_image_size=TILE),
    "smolvlm": lambda: SmolVLMImageProcessorPil(size={"longest_edge": 64}, max_image_size=TILE),
    "llava_onevision": lambda: LlavaOnevisionImageProcessorPil(
        size={"height": 16, "width": 16}, image_grid_pinpoints=[[16, 32], [32, 16], [32, 32], [16, 64], [64, 64]]
    ),
}
MARKS = ("<img>", "</img>", "<fake_token_around_image>", "<global-img>", *(f"<row_{r}_col_{c}>" for r in range(1, 5) for c in range(1, 5)))  # fmt: skip
CHAT = (
    "{% for turn in messages %}{{ '<user>' if turn['role'] == 'user' else '<assistant>' }}{% for part in turn['content'] %}"
    "{{ '<image>' if part['type'] == 'image' else part['text'] }}{% endfor %}<end>{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Random models of each class, saved as their authors save them."""
    root = tmp_path_factory.mktemp("classes")
    for name, pictures in PICTURES.items():
        tokenizer = build_tokenizer("tiny-qwen")
        tokenizer.add_special_tokens({"additional_special_tokens": ["<image>", "<video>", "<user>", "<end>", *MARKS]})
        tokenizer.chat_template = CHAT
        torch.manual_seed(0)
        model = tiny.BUILDERS[name]().eval()
        model.resize_token_embeddings(len(tokenizer))
        model.config.image_token_id = tokenizer.convert_tokens_to_ids("<image>")
        if name == "llava_onevision":
            model.config.video_token_id = tokenizer.convert_tokens_to_ids("<video>")
            model.config.image_grid_pinpoints = pictures().image_grid_pinpoints
        model.generation_config.eos_token_id = tokenizer.eos_token_id
        for part in (model, tokenizer, pictures()):
            part.save_pretrained(root / name)
    settings = {
        "processor_class": "Idefics3Processor",
        "image_seq_len": 4,
    }  # its own processor takes no videos, so it loads
    (root / "idefics3" / "processor_config.json").write_text(json.dumps(settings))
    return root


def transformers_text(name, processor, images, number):
    """What the class of transformers writes for a picture, by its own method on what it would hold."""
    tokens = {"image_token": "<image>", "fake_image_token": MARKS[2], "image_seq_len": 4}
    rules = {
        "internvl": (InternVLProcessor, {"image_token": "<image>", "image_seq_length": 4, "start_image_token": "<img>", "end_image_token": "</img>"}),
        "idefics3": (Idefics3Processor, {**tokens, "global_image_tag": "<global-img>"}),
        "smolvlm": (SmolVLMProcessor, {**tokens, "global_image_token": "<global-img>"}),
        "llava_onevision": (LlavaOnevisionProcessor, {"image_token": "<image>", "num_image_tokens": 16, "vision_feature_select_strategy": "full", "vision_aspect_ratio": "anyres_max_9", "image_processor": processor.image_processor}),
    }  # fmt: skip
    kind, held = rules[name]
    rule = SimpleNamespace(**held)
    for method in ("_get_number_of_features", "_get_unpadded_features"):
        if hasattr(kind, method):
            setattr(rule, method, getattr(kind, method).__get__(rule))
    return kind.replace_image_token(rule, images, number)


@pytest.mark.parametrize("size", [(16, 16), (90, 84), (40, 300), (300, 40), (17, 33)])
@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_written_as_transformers_writes_it(folders, name, size):
    processor = JoinedProcessor.from_pretrained(folders / name)
    image = Image.new("RGB", size, "red")
    given = [[image]] if name != "internvl" else [image]
    images = processor.image_processor(images=given, return_tensors="pt", **OPTIONS.get(name, {}))
    text = transformers_text(name, processor, images, 0) + "what?"
    found = processor(text="<image>what?", images=image)
    assert found["input_ids"][0].tolist() == processor.tokenizer(text)["input_ids"]
    assert torch.equal(found["pixel_values"], images["pixel_values"])


@pytest.mark.parametrize("name", PICTURES)
def test_a_folder_without_torchvision_is_loaded_pruned_and_answers(folders, name):
    model, processor = vispco.load(folders / name)
    samples = [*dataset("test", "attribute,chart", limit=1), *dataset("test", "pair", limit=1)]
    evaluator = TaskEvaluator(model, processor, samples, "divprune", max_new_tokens=2, kl=True)
    whole = evaluator(None)
    full = evaluator(vispco.Schedule.single(layer=1, keep=1.0, num_layers=4))
    half = evaluator(vispco.Schedule.single(layer=1, keep=0.5, num_layers=4))
    assert full.kl == 0
    assert 0.3 < half.fraction["exact"] < whole.fraction["exact"] == 1
