"""The second turn: another question about a picture whose tokens were chosen while the first one was asked.

The first question is read under the pruner, and its cache is kept. The reference answer and the second question are
appended to it, so that nothing chooses again. A choice that does not read the question is the same for both; one that
does may have dropped what the second question is about.
"""

from __future__ import annotations

import hashlib
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from vispco.data import TASKS
from vispco.data.dataset import DrawnSample, random_for
from vispco.data.sample import Sample
from vispco.evaluation.candidate import Candidate, CandidateRun
from vispco.evaluation.encoded import answer_limits, apply_template, conversation, pad_token
from vispco.evaluation.features import PIXELS, FeatureStore
from vispco.scorers import Chain


@dataclass(frozen=True)
class _FollowUp:
    """A question to ask after that of the sample at a place. tokens: int64 [C], what follows the prompt of the first question."""

    place: int
    sample: Sample
    tokens: Tensor


@dataclass
class SecondTurns:
    """Asks a second question of each sample that has one: drawn pictures do, others where a later sample shows the same pictures."""

    model: Any
    processor: Any
    samples: Sequence[Sample]
    store: FeatureStore
    num_layers: int
    batch_size: int = 64

    def accuracy(self, chain: Chain, candidate: Candidate) -> float | None:
        """Mean over tasks of the second answers under a candidate; None without second questions."""
        if not self._batches:
            return None
        run = CandidateRun(candidate, chain, self.num_layers, len(self.samples))
        self.store.require(run.chain.needs_vision)
        scores: dict[str, list[float]] = {}
        for batch in self._batches:
            for asked, answer in zip(batch, self._answers(run, batch), strict=True):
                scores.setdefault(asked.sample.task, []).append(asked.sample.score(answer))
        return statistics.fmean(statistics.fmean(each) for each in scores.values())

    @torch.no_grad()
    def _answers(self, run: CandidateRun, batch: Sequence[_FollowUp]) -> list[str]:
        rows = [asked.place for asked in batch]
        encoded = self.store.encode([self.samples[row] for row in rows], cut=run.cut)
        options = {"do_sample": False, "num_beams": 1, "pad_token_id": pad_token(self.processor)}
        longer = _appended(encoded.inputs, torch.stack([asked.tokens for asked in batch]).to(self.model.device))
        with run.on(self.model, rows, encoded):
            first = self.model.generate(**encoded.inputs, **options, max_new_tokens=1, return_dict_in_generate=True)
            written = self.model.generate(
                **longer, **options, past_key_values=first.past_key_values, max_new_tokens=self._limit
            )
        texts = self.processor.batch_decode(written[:, longer["input_ids"].shape[1] :], skip_special_tokens=True)
        return [text.strip() for text in texts]

    @cached_property
    def _batches(self) -> list[list[_FollowUp]]:
        """Of equally many appended tokens: padding would stand in the middle of a conversation."""
        by_length: dict[int, list[_FollowUp]] = {}
        for place, other in _second_questions(self.samples).items():
            tokens = self._appended_tokens(self.samples[place], other)
            if tokens is not None:
                by_length.setdefault(len(tokens), []).append(_FollowUp(place, other, tokens))
        size = self.batch_size
        return [each[start : start + size] for each in by_length.values() for start in range(0, len(each), size)]

    @cached_property
    def _limit(self) -> int:
        asked = [each.sample for batch in self._batches for each in batch]
        return max(answer_limits(self.model, self.processor, asked, None)[0])

    def _appended_tokens(self, first: Sample, second: Sample) -> Tensor | None:
        """The answer and the second question as the template writes them; None where it rewrites what was said before."""
        chat = conversation(first, self.processor)
        answer = {"role": "assistant", "content": [{"type": "text", "text": first.references[0]}]}
        question = {"role": "user", "content": conversation(second, self.processor)[-1]["content"][-1:]}
        before, whole = (apply_template(self.processor, each) for each in (chat, [*chat, answer, question]))
        if not whole.startswith(before):
            return None
        return torch.tensor(self.processor.tokenizer(whole[len(before) :], add_special_tokens=False)["input_ids"])


def _second_questions(samples: Sequence[Sample]) -> dict[int, Sample]:
    """By the place of a sample: one with another question about the same pictures."""
    found: dict[int, Sample] = {}
    shown: dict[str, int] = {}
    for place, sample in enumerate(samples):
        if isinstance(sample, DrawnSample) and sample.scene is not None:
            asked = TASKS[sample.task].ask(sample.scene, random_for("second", sample.id))
            other = next((each for each in asked if each[0] != sample.question), None)
            if other is not None:
                found[place] = replace(sample, question=other[0], answer=other[1], images=())
        elif sample.references and not sample.history:
            pixels = b"".join(f"{image.size}".encode() + image.tobytes() for image in sample.images)
            before = shown.setdefault(hashlib.sha256(pixels).hexdigest(), place)
            if before != place and samples[before].question != sample.question:
                found.setdefault(before, sample)
    return found


def _appended(inputs: dict[str, Any], tokens: Tensor) -> dict[str, Any]:
    """Inputs for the whole conversation, without pictures: what goes with tokens is [B, T] -> [B, T + C]."""
    own = {"input_ids": tokens, "attention_mask": torch.ones_like(tokens)}
    shape = inputs["input_ids"].shape
    return {
        name: torch.cat([value, own.get(name, torch.zeros_like(tokens)).to(value.dtype)], dim=1)
        if isinstance(value, Tensor) and value.shape == shape
        else value
        for name, value in inputs.items()
        if name != "mm_encoder_outputs" and not name.startswith(PIXELS)
    }
