"""Calibration samples as batches whose vision tower and teacher run once."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence, Sized
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn.functional import pad

from vispco.core.errors import InvalidInputError
from vispco.data.dataset import Lazy
from vispco.evaluation.caches import GIB, TensorCache
from vispco.evaluation.features import FeatureStore
from vispco.pruner.observation import Observation, join_observations
from vispco.search.batch import Batch, run_teacher

if TYPE_CHECKING:
    from vispco.data.sample import Sample


_WINDOW = 128  # samples whose pictures are held at once


class CalibrationBatches(Lazy[Batch]):
    """Batches of a list of samples, in its order (a search looks at the first ones first).

    by_area: sort the samples of each window (`_window_of`) by the area of their pictures, so that little is padded. `areas` has
    those of the windows opened so far.
    memory: bytes for what the teacher said, as many again for visual features, and for the batches that were used last; the
    rest waits on disk.
    So a training set may be larger than memory, and of many ranks each computes only the batches that it uses.
    on_new: called with every batch when its teacher has run, to put it on a bill.
    """

    def __init__(
        self,
        model: Any,
        processor: Any,
        samples: Sequence[Sample],
        *,
        batch_size: int = 16,
        memory: int = 2 * GIB,
        store: FeatureStore | None = None,
        on_new: Callable[[Batch], None] = lambda _: None,
        by_area: bool = False,
    ) -> None:
        if not len(samples) or batch_size < 1:
            raise InvalidInputError(
                f"{len(samples)} samples in batches of {batch_size} were given. A search needs at least one of each."
            )
        self.model, self.samples, self.batch_size, self.on_new = model, samples, batch_size, on_new
        self.store = store or FeatureStore(model, processor, memory=memory)
        self.cache = TensorCache(memory)
        self.memory, self._recent = memory, OrderedDict[tuple[int, ...], Batch]()
        self._known: dict[int, list[Sample]] = {}
        self.by_area = by_area
        self.areas: dict[int, int] = {}
        self._opened: dict[int, Sample] = {}

    def __len__(self) -> int:
        return (len(self.samples) + self.batch_size - 1) // self.batch_size

    @property
    def lengths(self) -> list[int]:
        """Samples of each batch; none is made for it."""
        starts = range(0, len(self.samples), self.batch_size)
        return [min(self.batch_size, len(self.samples) - start) for start in starts]

    def make(self, place: int) -> Batch:
        start = place * self.batch_size
        if str(start) in self.cache:
            return self.rows(range(start, start + self.lengths[place]))
        batch = run_teacher(self.model, self.store.encode(self._chunk(place), answers=True))
        for row in range(len(batch)):
            kept = {"teacher": batch.teacher, **vars(batch.observation)}
            self.cache.put(str(start + row), {name: tensor[row : row + 1].clone() for name, tensor in kept.items()})
        self.on_new(batch)
        return self._remember(range(start, start + len(batch)), batch)

    def rows(self, index: Sequence[int]) -> Batch:
        """Some samples, by their places in the list, as one batch; a teacher that has run is not run again."""
        if tuple(index) in self._recent:
            return self._remember(index, self._recent[tuple(index)])
        kept = [self._kept(number) for number in index]  # first: once a chunk was asked for, its pictures are gone
        samples = [self._chunk(number // self.batch_size)[number % self.batch_size] for number in index]
        encoded = self.store.encode(samples, answers=True)
        teacher = self.teachers(index, encoded.answer_mask.shape[1])
        seen = [Observation(**{name: each[name] for name in each if name != "teacher"}) for each in kept]
        return self._remember(index, Batch(encoded, teacher, join_observations(seen).to(self.model.device)))

    def teachers(self, index: Sequence[int], width: int) -> Tensor:
        """What the teacher said of some samples, by their places in the list: [B, width, ...], answers at the right."""
        found = [self._kept(number)["teacher"][0] for number in index]
        rows = [pad(each[-width:], (0, 0, max(0, width - len(each)), 0)) for each in found]
        return torch.stack(rows).to(self.model.device)

    def _kept(self, number: int) -> dict[str, Tensor]:
        """What is kept of one sample, by its place in the list; computed with its batch if it was not."""
        if str(number) not in self.cache:
            self.make(number // self.batch_size)
        return self.cache.get(str(number))

    def _remember(self, index: Sequence[int], batch: Batch) -> Batch:
        """Keep a batch on the device until those that were used later fill the memory."""
        self._recent[tuple(index)] = batch
        self._recent.move_to_end(tuple(index))
        while len(self._recent) > 1 and sum(each.size for each in self._recent.values()) > self.memory:
            self._recent.popitem(last=False)
        return batch

    def _chunk(self, place: int) -> list[Sample]:
        """The samples of a batch. Once the store knows them, only their names are kept: a picture may be expensive to draw."""
        if place not in self._known:
            start = place * self.batch_size
            chunk = [self._take(number) for number in range(start, start + self.lengths[place])]
            self._known[place] = [sample.with_images(()) for sample in chunk]
            return chunk
        return self._known[place]

    def _take(self, number: int) -> Sample:
        """The sample at a place, from its window: that is opened whole, and its pictures are held until each was taken."""
        if not self.by_area:
            return self.samples[number]
        if number not in self._opened:
            places = [place for place in _window_of(number) if place < len(self.samples)]
            window = sorted((self.samples[place] for place in places), key=lambda sample: sample.area)
            self._opened |= zip(places, window, strict=True)
            self.areas |= {place: sample.area for place, sample in zip(places, window, strict=True)}
        return self._opened.pop(number)


class PickedBatches(Lazy[Batch]):
    """Batches that `pick` makes of parts, each when it is asked for. lengths: samples of each, where they are known."""

    def __init__(self, pick: Callable[[Any], Batch], parts: Sequence[Any], lengths: list[int] | None = None) -> None:
        self.pick, self.parts, self.lengths = pick, parts, lengths

    def __len__(self) -> int:
        return len(self.parts)

    def make(self, place: int) -> Batch:
        return self.pick(self.parts[place])


def _window_of(number: int) -> range:
    """The places of the samples that one is sorted among: the first 32, the next 32, the next 64, then 128 at a time.

    The rungs of a search end where windows do, so that none has small pictures alone.
    """
    size = 32 if number < 64 else 64 if number < _WINDOW else _WINDOW
    return range(number - number % size, number - number % size + size)


def batch_lengths(batches: Sequence[Sized]) -> list[int]:
    """Samples of each batch, without running vision tower and teacher on batches that were not used yet."""
    known: list[int] | None = getattr(batches, "lengths", None)
    return [len(batch) for batch in batches] if known is None else known
