"""A batch that a search comes back to: its inputs, the unpruned model's answer to them, and what a predictor sees."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vispco.core.errors import InvalidInputError
from vispco.engine import recorded_embeddings
from vispco.evaluation.encoded import Encoded
from vispco.evaluation.kl_meter import KlMeter
from vispco.families import family_of
from vispco.pruner.observation import Observation, observe
from vispco.search.search_journal import work_key


@dataclass(frozen=True, eq=False)
class Batch:
    """B samples with their answers. teacher: [B, A, T], what the unpruned model says there (`top_log_probabilities`)."""

    encoded: Encoded
    teacher: Tensor
    observation: Observation

    def __len__(self) -> int:
        return len(self.encoded.num_visual)

    @cached_property
    def num_text(self) -> Tensor:
        """Text tokens of each prompt: int64 [B]. A budget is a fraction of the prompt's cost, without the answer."""
        return torch.tensor(self.encoded.num_text)

    @cached_property
    def num_visual(self) -> Tensor:
        return torch.tensor(self.encoded.num_visual)

    @cached_property
    def sizes(self) -> Tensor:
        """See `TokenLayout.prompt_sizes`: int64 [B, 4] on the host."""
        return self.observation.sizes.cpu()

    @cached_property
    def num_answer(self) -> Tensor:
        return torch.tensor(self.encoded.answer_lengths)

    @cached_property
    def name(self) -> str:
        """One name for the same samples before the same model: from the prompts, and how likely it finds the answers."""
        assert self.encoded.labels is not None  # noqa: S101 - a batch has answers by construction
        mask = self.encoded.answer_mask
        answer = self.encoded.labels[:, -mask.shape[1] :].masked_fill(~mask, 0)
        known = answer.clamp_max(self.teacher.shape[-1] - 1)[..., None]  # any number of the teacher's, always the same
        found = self.teacher.gather(-1, known)[..., 0].masked_fill(~mask, 0.0)
        tensors = (self.encoded.inputs["input_ids"], answer, found.float())
        return work_key(*self.encoded.ids, *(tensor.cpu().numpy().tobytes() for tensor in tensors))

    @cached_property
    def size(self) -> int:
        """Bytes of its inputs and of what the teacher says."""
        return _num_bytes([self.encoded.inputs, self.encoded.labels, self.teacher, vars(self.observation)])

    def tiled(self, times: int) -> Batch:
        """The batch `times` over, one copy after the other: [times * B, ...]."""
        if times == 1:
            return self
        encoded = self.encoded
        again = replace(
            encoded,
            ids=encoded.ids * times,
            inputs={name: _tiled(value, times) for name, value in encoded.inputs.items()},
            labels=_tiled(encoded.labels, times),
            num_visual=encoded.num_visual * times,
            num_text=encoded.num_text * times,
            answer_lengths=encoded.answer_lengths * times,
            num_instruction=encoded.num_instruction * times,
        )
        index = torch.arange(len(self)).repeat(times)
        return Batch(again, _tiled(self.teacher, times), self.observation.take(index))


def _num_bytes(value: Any) -> int:
    if isinstance(value, Tensor):
        return value.numel() * value.element_size()
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
    return sum(map(_num_bytes, parts))


def _tiled(value: Any, times: int) -> Any:
    """Pictures and rows are repeated in the same order, so tiling each tensor tiles the batch."""
    if isinstance(value, Tensor):
        return torch.cat([value] * times)
    if isinstance(value, BaseModelOutputWithPooling):
        return BaseModelOutputWithPooling(pooler_output=_tiled(value.pooler_output, times))
    if isinstance(value, dict):
        return {key: _tiled(inner, times) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(value) * times
    return value


@torch.no_grad()
def run_teacher(model: Any, encoded: Encoded) -> Batch:
    """One unpruned pass over a batch: the teacher's answer, and the embeddings that enter the language model."""
    if encoded.labels is None:
        raise InvalidInputError("A search learns from the answers' positions. Encode the samples with answers=True.")
    family = family_of(model)
    with recorded_embeddings(model) as seen:
        teacher = KlMeter().teacher(model, encoded)
    layout = family.layout(model, encoded.inputs, answers=encoded.labels != -100)
    return Batch(encoded, teacher, observe(layout, seen[0]))
