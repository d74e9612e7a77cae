"""From a finished run to a folder that any transformers program can load."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoModelForImageTextToText

from vispco import files
from vispco.data.dataset import dataset
from vispco.zoo.accuracy import accuracy
from vispco.zoo.card import write_card
from vispco.zoo.definitions import build_image_processor
from vispco.zoo.processor import load_processor
from vispco.zoo.tokenizer import build_tokenizer

if TYPE_CHECKING:
    from pathlib import Path

PROCESSORS = {"tiny-qwen": "Qwen2_5_VLProcessor", "tiny-llava": "LlavaProcessor", "tiny-gemma": "Gemma3Processor"}
VISUAL_TOKENS = {"tiny-qwen": "36 to 256", "tiny-llava": "100", "tiny-gemma": "100"}


def save_model(name: str, model: Any, folder: Path) -> None:
    """Configuration, half-precision weights, tokenizer and image processor, under the names that a hub model has."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    model.to(torch.float16).save_pretrained(folder)
    model.to(torch.float32)
    tokenizer = build_tokenizer(name)
    tokenizer.save_pretrained(folder)
    images = build_image_processor(name)
    images.save_pretrained(folder)
    _edit(folder / "tokenizer_config.json", processor_class=PROCESSORS[name])
    _edit(folder / "preprocessor_config.json", processor_class=PROCESSORS[name])
    extra: dict[str, Any] = {"processor_class": PROCESSORS[name]}
    if name == "tiny-llava":
        extra |= {"patch_size": 12, "num_additional_image_tokens": 1, "vision_feature_select_strategy": "default"}
    elif name == "tiny-gemma":
        extra |= {"image_seq_length": model.config.mm_tokens_per_image}
    else:
        shutil.copy(folder / "preprocessor_config.json", folder / "video_preprocessor_config.json")
        _edit(folder / "video_preprocessor_config.json", video_processor_type="Qwen2VLVideoProcessor")
    files.write_json(folder / "processor_config.json", extra, indent=2)


def _edit(file: Path, **values: Any) -> None:
    found = json.loads(file.read_text())
    files.write_text(file, json.dumps(found | values, indent=2, sort_keys=True) + "\n")


def export(trainer: Any, folder: Path, *, limit: int | None = None) -> dict[str, Any]:
    """Save the model of a run, measure what was saved on the test set, and write its card. Returns the card's facts."""
    name = trainer.name
    save_model(name, trainer.model, folder)
    model = AutoModelForImageTextToText.from_pretrained(folder, dtype=torch.float32).eval()
    processor = load_processor(folder)
    samples = list(dataset("test", limit=limit))
    curve = [json.loads(line) for line in trainer.curve.read_text().splitlines()] if trainer.curve.exists() else []
    facts = {
        "name": name,
        "architecture": type(model).__name__,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "layers": model.config.text_config.num_hidden_layers,
        "visual_tokens": VISUAL_TOKENS[name],
        "command": f"OMP_NUM_THREADS={torch.get_num_threads()} vispco zoo train {name} --seed {trainer.seed}",
        "seed": trainer.seed,
        "steps": trainer.progress.step,
        "seconds": round(trainer.progress.seconds),
        "recipe": trainer.plan.to_dict(),
        "test_items": len(samples),
        "accuracy": {task: round(value, 4) for task, value in accuracy(model, processor, samples).items()},
        "blank": {task: round(value, 4) for task, value in accuracy(model, processor, samples, blank=True).items()},
    }
    thin = [entry for entry in curve if entry["step"] > trainer.plan.warmup]
    write_card(folder, facts, thin[:: max(1, len(thin) // 100)])
    return facts
