"""The paper's downsampling: as many small pictures as large ones (section "Training Dataset" of the appendix).

Uniform bins over the range of image areas; bins with too many pictures are subsampled, those with too few repeated,
until all hold about the same number. Two passes: areas from the image headers, then the records that were chosen.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from random import Random
from typing import Any, TypeVar

from vispco.core.errors import InvalidInputError
from vispco.data.files.record import Record, Records, SkippedItemError

_T = TypeVar("_T")

_SAMPLES = 30_000  # the paper's
_BINS = 20  # the paper gives no number


@dataclass(frozen=True, slots=True)
class AreaSample:
    """The items to take, and histograms of their areas before and after."""

    indices: tuple[int, ...]  # positions in the order of reading, ascending; a repeated item is there repeatedly
    edges: tuple[float, ...]  # [bins + 1] pixels
    before: tuple[int, ...]  # [bins] items
    after: tuple[int, ...]  # [bins] items
    seed: int
    unreadable: int = 0  # items whose area is not known, which are never chosen

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def read_areas(records: Records) -> array[float]:
    """The area of each record in the order of reading, 8 bytes each; NaN where the header turns out to be broken."""
    areas = array("d")
    for record in records:
        try:
            areas.append(float(record.area()))
        except SkippedItemError as error:
            records.report.leave_out(error.skipped)
            areas.append(float("nan"))
    return areas


def equalise_areas(areas: Sequence[float], n: int = _SAMPLES, *, bins: int = _BINS, seed: int = 0) -> AreaSample:
    """Chooses `n` items so that the bins that have any hold the same number of them, give or take one.

    One enormous picture makes a bin of its own and is repeated to fill it, as the paper's rule has it.
    """
    if n < 1 or bins < 1:
        raise InvalidInputError(f"n = {n}, bins = {bins}: each must be 1 or more.")
    usable = [index for index, area in enumerate(areas) if area == area]  # noqa: PLR0124  NaN is not itself
    if not usable:
        raise InvalidInputError("No image's area is known, so there is nothing to sample from.")
    low, high = min(areas[index] for index in usable), max(areas[index] for index in usable)
    width = (high - low) / bins
    members: list[list[int]] = [[] for _ in range(bins)]
    for index in usable:
        members[min(bins - 1, int((areas[index] - low) / width)) if width else 0].append(index)
    rng = Random(seed)  # noqa: S311  reproducible, not secret
    filled = [place for place, group in enumerate(members) if group]
    each, extra = divmod(n, len(filled))
    shares = [each if group else 0 for group in members]
    for place in rng.sample(filled, extra):
        shares[place] += 1
    chosen: list[int] = []
    for group, share in zip(members, shares, strict=True):
        whole, rest = divmod(share, len(group)) if group else (0, 0)
        chosen += group * whole + rng.sample(group, rest)
    edges = (*(low + width * place for place in range(bins)), high)
    return AreaSample(
        tuple(sorted(chosen)), edges, tuple(map(len, members)), tuple(shares), seed, len(areas) - len(usable)
    )


def take(records: Iterable[Record], indices: Iterable[int]) -> Iterator[Record]:
    """The chosen records in the order of reading; the k-th repeat of one has `~k` behind its id."""
    wanted = Counter(indices)
    for index, record in enumerate(records):
        for repeat in range(wanted.pop(index, 0)):
            yield replace(record, id=f"{record.id}~{repeat}") if repeat else record
        if not wanted:
            return


def draw(items: Iterable[_T], limit: int | None, seed: int = 0) -> list[_T]:
    """`limit` of the items, each as likely as any other, in their order; all of them without a limit.

    The same items and seed give the same draw on every machine.
    """
    if limit is None:
        return list(items)
    rng = Random(seed)  # noqa: S311  reproducible, not secret
    kept: list[tuple[int, _T]] = []
    for place, item in enumerate(items):
        if place < limit:
            kept.append((place, item))
        elif (room := rng.randrange(place + 1)) < limit:
            kept[room] = (place, item)
    return [item for _, item in sorted(kept, key=lambda entry: entry[0])]


def draw_groups(items: Iterable[_T], group: Callable[[_T], str], limit: int | None, seed: int = 0) -> list[_T]:
    """At most `limit` of the items in their order, with whole groups only; at least one group.

    Groups are drawn in a random order as long as they fit. Where every group has one item, this is `draw`.
    """
    members: dict[str, list[int]] = {}
    found = list(items)
    for place, item in enumerate(found):
        members.setdefault(group(item), []).append(place)
    if limit is None or len(members) == len(found):
        return draw(found, limit, seed)
    order = list(members.values())
    Random(seed).shuffle(order)  # noqa: S311  reproducible, not secret
    chosen: list[int] = []
    for places in order:
        if len(chosen) + len(places) <= limit or not chosen:
            chosen += places
    return [found[place] for place in sorted(chosen)]
