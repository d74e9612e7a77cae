"""The paper's rebalancing for samples in memory: as many small pictures as large ones, and the histograms of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vispco.sources.sampling import BINS, AreaSample, equalise_areas

if TYPE_CHECKING:
    from vispco.data.sample import Sample


@dataclass(frozen=True)
class AreaHistogram:
    """What the plot shows: edges [bins + 1] in pixels, and how many samples each bin held before and holds after."""

    edges: tuple[float, ...]
    before: tuple[int, ...]
    after: tuple[int, ...]


def rebalance_by_area(
    samples: Sequence[Sample], n: int | None = None, *, bins: int = BINS, seed: int = 0, max_repeats: int | None = None
) -> tuple[list[Sample], AreaHistogram]:
    """`n` samples (default: as many as there are) with equal numbers in uniform bins of image area.

    A repeated sample has `~1`, `~2`, ... behind its id, so that ids stay unique.
    """
    areas = [float(sample.area) for sample in samples]
    drawn: AreaSample = equalise_areas(areas, n or len(areas), bins=bins, seed=seed, max_repeats=max_repeats)
    chosen, times = [], dict.fromkeys(drawn.indices, 0)
    for index in drawn.indices:
        sample, repeat = samples[index], times[index]
        chosen.append(sample.with_id(f"{sample.id}~{repeat}") if repeat else sample)
        times[index] += 1
    return chosen, AreaHistogram(drawn.edges, drawn.before, drawn.after)
