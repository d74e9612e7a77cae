"""Layer ablation: how much worse a model's answers are without each decoder layer.

Answers are teacher-forced: the model reads the right answer, and an answer counts as right if every token of it is the
most likely one. That needs one forward pass for each layer that is left out.
"""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from vispco_zoo.packed_batch import Levels, PackedBatch, Packer, answers, visual_tokens
from vispco_zoo.training_scenes import TrainingExample

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vispco.data.dataset import DrawnSample

_TOGETHER = 16  # samples of a batch
POINTS, KL = 0.5, 0.01  # a layer matters if its removal costs more than one of these


@dataclass(frozen=True, slots=True)
class LayerRemoval:
    """What the removal of one layer costs."""

    layer: int
    points: float  # of accuracy, in percent; negative where the model is better without the layer
    kl: float  # KL(without the layer || whole model) over the tokens of an answer, mean over samples

    @property
    def matters(self) -> bool:
        return self.points > POINTS or self.kl > KL


@contextmanager
def layer_removed(model: Any, layer: int) -> Iterator[None]:
    """The hidden states pass the layer unchanged while the block runs."""

    def unchanged(_: Any, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> Any:
        hidden = args[0] if args else kwargs["hidden_states"]
        return (hidden, *output[1:]) if isinstance(output, tuple) else hidden

    handle = model.model.language_model.layers[layer].register_forward_hook(unchanged, with_kwargs=True)
    try:
        yield
    finally:
        handle.remove()


def removal_penalty(
    model: Any, batch: PackedBatch, features: Levels, whole: Tensor, layer: int, least: float
) -> Tensor:
    """How far the KL of leaving out a layer is below `least`, as a difference of logarithms; 0 where it is above.

    whole: the logits of the whole model [A, V]. Its gradient makes the other layers rely on this one.
    """
    with layer_removed(model, layer):
        without, _, _ = answers(model, batch, features)
    log_without = without.log_softmax(-1)
    kl = (log_without.exp() * (log_without - whole.log_softmax(-1))).sum(-1).mean()
    return (math.log(least) - kl.clamp_min(1e-8).log()).clamp_min(0.0)


@torch.inference_mode()
def measure_layer_removal(model: Any, image_processor: Any, samples: Sequence[DrawnSample]) -> list[LayerRemoval]:
    """The cost of removing each layer, one at a time, on drawn samples."""
    pack = Packer(model, image_processor)
    count = model.config.text_config.num_hidden_layers
    right, kl, total = [0] * (count + 1), [0.0] * count, 0
    known = [
        (sample, sample.scene) for sample in samples if sample.scene is not None
    ]  # pictures that were not replaced
    given = [
        TrainingExample(scene, sample.image, ((sample.task, sample.question, sample.answer),))
        for sample, scene in sorted(known, key=lambda each: each[0].area)
    ]
    for start in range(0, len(given), _TOGETHER):
        part = given[start : start + _TOGETHER]
        batch = pack(part)
        features = visual_tokens(model, batch.pixels)
        logits, targets, asked = answers(model, batch, features)
        whole = logits.log_softmax(-1)
        right[count] += _right(whole, targets, asked, len(part))
        total += len(part)
        for layer in range(count):
            with layer_removed(model, layer):
                found = answers(model, batch, features)[0].log_softmax(-1)
            right[layer] += _right(found, targets, asked, len(part))
            divergence = (found.exp() * (found - whole)).sum(-1)
            kl[layer] += float(_means(divergence, asked, len(part)).sum())
    return [LayerRemoval(i, 100 * (right[count] - right[i]) / total, kl[i] / total) for i in range(count)]


def _means(values: Tensor, asked: Tensor, count: int) -> Tensor:
    """Mean over the tokens [A] of each of `count` questions -> [count]."""
    zeros = torch.zeros(count)
    return zeros.index_add(0, asked, values) / zeros.index_add(0, asked, torch.ones_like(values)).clamp(min=1)


def _right(log_probabilities: Tensor, targets: Tensor, asked: Tensor, count: int) -> int:
    hit = (log_probabilities.argmax(-1) == targets).float()
    return int((_means(hit, asked, count) == 1).sum())
