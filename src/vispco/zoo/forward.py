"""One training step's forward pass through an unmodified transformers model."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from vispco.zoo.packed_batch import IGNORE
from vispco.zoo.tokenizer import IMAGE, token_ids

if TYPE_CHECKING:
    from vispco.zoo.packed_batch import Batch


def visual_tokens(model: Any, pixels: dict[str, Tensor]) -> Tensor:
    """[visual tokens of all images, D], as the language model receives them."""
    features = model.model.get_image_features(**pixels, return_dict=True).pooler_output
    if isinstance(features, list | tuple):
        features = torch.cat(list(features), dim=0)
    return features.reshape(-1, features.shape[-1])  # type: ignore[no-any-return]


def answers(model: Any, batch: Batch, features: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Logits [A, V], targets [A] and question numbers [A] of every answer token of the batch."""
    embedded = model.get_input_embeddings()(batch.input_ids)
    where = (batch.input_ids == token_ids()[IMAGE]).unsqueeze(-1)
    embedded = embedded.masked_scatter(where, features)
    mask: Any = batch.mask
    if batch.sliding is not None:
        mask = {"full_attention": batch.mask, "sliding_attention": batch.sliding}
    positions = batch.position_ids if model.config.model_type.startswith("qwen") else batch.position_ids[0]
    hidden = model.model.language_model(
        inputs_embeds=embedded, attention_mask=mask, position_ids=positions, use_cache=False
    ).last_hidden_state
    keep = batch.targets != IGNORE
    return model.lm_head(hidden[keep]), batch.targets[keep], batch.asked[keep]


def answer_loss(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
    return nn.functional.cross_entropy(logits, targets, label_smoothing=smoothing)


@torch.no_grad()
def right_by_task(logits: Tensor, targets: Tensor, asked: Tensor, tasks: tuple[str, ...]) -> dict[str, tuple[int, int]]:
    """(right, asked) of each task; a question is right if all tokens of its answer are."""
    wrong = torch.zeros(len(tasks), dtype=torch.long).index_add_(0, asked, (logits.argmax(-1) != targets).long())
    counts: dict[str, tuple[int, int]] = {}
    for task, misses in zip(tasks, wrong.tolist(), strict=True):
        right, total = counts.get(task, (0, 0))
        counts[task] = (right + (misses == 0), total + 1)
    return counts
