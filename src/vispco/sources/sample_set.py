"""A list of samples that also says what was left out of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, overload

if TYPE_CHECKING:
    from vispco.data.sample import Sample
    from vispco.sources.skipped import SkipReport

SampleT_co = TypeVar("SampleT_co", bound="Sample", covariant=True)


class SampleSet(Sequence[SampleT_co]):
    """Samples in order; `skipped` has a report for each task that was read from a file."""

    def __init__(self, items: Sequence[SampleT_co], skipped: Mapping[str, SkipReport] | None = None) -> None:
        self.items, self.skipped = items, dict(skipped or {})

    @staticmethod
    def of(samples: Sequence[Sample]) -> SampleSet[Sample]:
        """The samples as a set: a set as it is, any other sequence with nothing skipped."""
        return samples if isinstance(samples, SampleSet) else SampleSet(samples)

    def __len__(self) -> int:
        return len(self.items)

    @overload
    def __getitem__(self, index: int) -> SampleT_co: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[SampleT_co]: ...
    def __getitem__(self, index: int | slice) -> SampleT_co | Sequence[SampleT_co]:
        return self.items[index]

    def readable_by(self, processor: Any) -> SampleSet[SampleT_co]:  # noqa: ARG002  sets of files look at the processor
        """Without the samples that the model's processor refuses; these are counted in `skipped`."""
        return self
