"""Accuracy of a model on drawn samples, by plain batched `generate()`."""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from PIL import Image

from vispco.data.dataset import TASKS
from vispco.data.sample import Sample

MAX_NEW_TOKENS = 8
BICUBIC = Image.Resampling.BICUBIC


def prompt(processor: Any, question: str) -> str:
    """A question about one image, as the model's chat template writes it."""
    content = [{"type": "image"}, {"type": "text", "text": question}]
    conversation = [{"role": "user", "content": content}]
    return processor.apply_chat_template(conversation, tokenize=False, add_generation_prompt=True)  # type: ignore[no-any-return]


@torch.inference_mode()
def answer(model: Any, processor: Any, images: Sequence[Image.Image], questions: Sequence[str]) -> list[str]:
    """One short answer for each pair, in one batch."""
    text = [prompt(processor, question) for question in questions]
    inputs = processor(text=text, images=[[image] for image in images], return_tensors="pt", padding=True)
    inputs = inputs.to(model.device)
    generated = model.generate(**inputs, max_new_tokens=MAX_NEW_TOKENS, do_sample=False)
    new = generated[:, inputs["input_ids"].shape[1] :]
    return [line.strip() for line in processor.batch_decode(new, skip_special_tokens=True)]


def with_pixels(samples: Iterable[Sample], share: float) -> list[Sample]:
    """The samples with pictures of `share` times as many pixels, smoothly scaled; the questions stay."""
    scale = math.sqrt(share)
    return [
        sample.with_images(
            [
                image.resize((max(1, round(image.width * scale)), max(1, round(image.height * scale))), BICUBIC)
                for image in sample.images
            ]
        )
        for sample in samples
    ]


def accuracy(
    model: Any, processor: Any, samples: Iterable[Sample], *, batch: int = 32, blank: bool = False
) -> dict[str, float]:
    """Mean score by task, and their `average`. With `blank` the pictures are grey: what is guessed."""
    given = sorted(samples, key=lambda sample: sample.area)
    scores: dict[str, list[float]] = {}
    for start in range(0, len(given), batch):
        part = given[start : start + batch]
        pictures = [sample.images[0] for sample in part]
        images = [Image.new("RGB", picture.size, (128, 128, 128)) for picture in pictures] if blank else pictures
        predictions = answer(model, processor, images, [sample.question for sample in part])
        for sample, prediction in zip(part, predictions, strict=True):
            scores.setdefault(sample.task, []).append(sample.score(prediction))
    means = {task: sum(scores[task]) / len(scores[task]) for task in TASKS if task in scores}
    return means | {"average": sum(means.values()) / len(means)}
