"""Calibration batches under a tower setting: what enters the language model, beside what its teacher said of whole pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from vispco.core.layout import TokenLayout
from vispco.engine import recorded_embeddings
from vispco.evaluation.encoded import Encoded
from vispco.evaluation.features import FeatureStore
from vispco.evaluation.kl_meter import answer_logits
from vispco.pruner.observation import Observation, join_observations, observe
from vispco.pruner.picture_setting import PictureSetting, shrink_processor
from vispco.pruner.whole_planner import entered_layout
from vispco.search.batch import Batch
from vispco.search.calibration_batches import CalibrationBatches


class TowerBatches(CalibrationBatches):
    """The samples of other batches under a setting, each encoded once. Sizes are of what enters the language model."""

    def __init__(self, whole: CalibrationBatches, processor: Any, setting: PictureSetting) -> None:
        store = FeatureStore(whole.model, shrink_processor(processor, setting.pixels))
        super().__init__(
            whole.model, processor, whole.samples, batch_size=whole.batch_size, store=store, by_area=whole.by_area
        )
        self.whole, self.setting = whole, setting

    def make(self, place: int) -> Batch:
        samples, first = self._chunk(place), place * self.batch_size
        encoded = self.store.encode(samples, answers=True, cut=self.setting.cut)
        if str(first) not in self.cache:
            with torch.no_grad(), recorded_embeddings(self.model) as seen:
                answer_logits(self.model, encoded)
                found = vars(observe(entered_layout(self.layout(encoded)), seen[0]))
            for row in range(len(samples)):
                self.cache.put(str(first + row), {name: each[row : row + 1].clone() for name, each in found.items()})
        return self._batch(range(first, first + len(samples)), encoded)

    def rows(self, index: Sequence[int]) -> Batch:
        samples = [self._chunk(number // self.batch_size)[number % self.batch_size] for number in index]
        return self._batch(index, self.store.encode(samples, answers=True, cut=self.setting.cut))

    def layout(self, encoded: Encoded) -> TokenLayout:
        """Of a batch, its answers marked; it knows what the tower spent."""
        assert encoded.labels is not None  # noqa: S101 - a search has answers
        return self.setting.layout(self.model, encoded.inputs, encoded.labels != -100)

    def _batch(self, index: Sequence[int], encoded: Encoded) -> Batch:
        seen = join_observations([Observation(**self._kept(number)) for number in index]).to(self.model.device)
        teacher = self.whole.teachers(index, encoded.answer_mask.shape[1])
        entered = tuple(int(number) for number in seen.sizes[:, 1])
        return Batch(replace(encoded, num_visual=entered), teacher, seen)
