"""Milliseconds of a prefill (`Measured`), from times that were measured once on a device and are kept in the user's cache
(`TimeProfile`).
"""

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError, parsing
from vispco.core.runs import files
from vispco.cost.cost import Cost
from vispco.cost.dimensions import Dimensions
from vispco.cost.formulas import Exact
from vispco.cost.host import HostPricing, as_array
from vispco.cost.workload import Array, Workload

_NEAR = 0.02  # the share of the tokens that a stair may be below
_STEEP = 2.0  # the multiple of their share of time that these tokens must take
MARGIN = 0.03  # of a budget of time that is not planned with, at least: what a profile may be wrong by
_BEYOND = 8  # how far the table is extended beyond its last size, on the line of its last two
FORMAT = "vispco-profile"
_AGAIN = "Run `vispco profile MODEL` again, with little else running on this machine."
_TWICE = 2.0  # sizes whose times are compared differ by this factor at least: closer ones differ by kernels and noise
_FALL = 3.0  # factor by which twice the work may seem faster, on a busy machine
_RISE = 4.0  # factor over n^2 that n times the work may take: attention is quadratic, stairs and noise are the rest
_BATCH_SLACK = 3.0  # times both between batches, each of which has a fit of its own
_MOST_SPREAD = 0.75  # by which half of the single prefills may differ from what is fitted to them


@dataclass(frozen=True)
class Measured(Cost):
    """The time to the first token: the vision tower, the layers of the language model, and what stands around them. `price` is
    without the drops, which `bill` adds: so that it never falls when a count grows.

    tokens: sizes that were measured, growing. layer_ms: of one layer with each of these sizes, never falling.
    fixed_ms: of everything outside of the layers. drop_ms: of one drop. batch: the samples at once that all of it is about.
    tower_ms: of the vision tower on the pictures of a batch, for each visual token of one of its samples.
    margin: the share of a budget that planners leave free, since times vary from one prefill to the next.
    """

    name: ClassVar[str] = "measured"
    unit: ClassVar[str] = "ms"

    tokens: tuple[int, ...] = ()
    layer_ms: tuple[float, ...] = ()
    fixed_ms: float = 0.0
    drop_ms: float = 0.0
    batch: int = 1
    margin: float = MARGIN
    tower_ms: float = 0.0

    def __post_init__(self) -> None:
        steps = list(zip(self.tokens, self.layer_ms, strict=False))
        growing = all(a[0] < b[0] and a[1] <= b[1] for a, b in pairwise(steps))
        if len(self.tokens) != len(self.layer_ms) or len(self.tokens) < 2 or not growing:
            raise InvalidInputError(
                f"A table of {len(self.tokens)} sizes and {len(self.layer_ms)} times was given for the cost {self.name!r}. It "
                "needs two or more growing sizes with times that never fall: run `vispco profile MODEL` on this device."
            )

    @property
    def drop_price(self) -> float:
        return self.drop_ms

    @property
    def flop_price(self) -> float:
        """Scoring runs at the speed of the largest layer that was measured."""
        largest = Workload(0, self.tokens[-1])
        return self.layer_ms[-1] * self.num_layers / float(Exact(self.dimensions).full(largest))

    def price(self, counts: Tensor, workload: Workload) -> Tensor:
        """Milliseconds without drops: counts [..., L] -> [...], float64."""
        self.check_layers(counts)
        return (
            torch.from_numpy(np.asarray(self._time(as_array(workload.tokens(counts)))))
            + self.tower_ms * workload.num_visual
        )

    def host_price(self, counts: Array, pricing: HostPricing) -> Array:
        return self._time(counts + pricing.text[:, None]) + self.tower_ms * pricing.visual

    def host_relaxed(self, retention: Array, pricing: HostPricing) -> Array:
        return self._time(retention * pricing.visual[:, None] + pricing.text[:, None]) + self.tower_ms * pricing.visual

    def host_stairs(self, tokens: Array) -> Array:
        """A measured size just below, where the few tokens above it take much more than their share of a layer's time."""
        sizes, here = np.array(self.tokens), self._layer(tokens)
        removed = (tokens[..., None] - sizes) / np.maximum(tokens[..., None], 1)  # [..., sizes]
        near = (removed > 0) & (removed <= _NEAR) & (here[..., None] > 0)
        steep = (here[..., None] - self._layer(sizes)) / np.where(near, removed * here[..., None], 1.0)
        best = np.where(near, steep, 0.0).argmax(axis=-1)
        found: Array = np.where(np.where(near, steep, 0.0).max(axis=-1) >= _STEEP, sizes[best], tokens)
        return found

    def _time(self, N: Array) -> Array:
        """Milliseconds of all layers and of what stands around them: N [..., L] tokens -> [...]."""
        found: Array = self._layer(N).sum(axis=-1) + self.fixed_ms
        return found

    def _layer(self, N: Array) -> Array:
        """Milliseconds of one layer by its number of tokens: [...] -> [...]."""
        x, y = np.array(self.tokens, dtype=np.float64), np.array(self.layer_ms, dtype=np.float64)
        slope = (y[-1] - y[-2]) / (x[-1] - x[-2])
        ends = np.array([0.0]), np.array([_BEYOND * x[-1]])
        first = max(0.0, y[0] - (y[1] - y[0]) / (x[1] - x[0]) * x[0])
        times = np.concatenate([[min(first, y[0])], y, y[-1:] + slope * (_BEYOND - 1) * x[-1]])
        found: Array = np.interp(N, np.concatenate([ends[0], x, ends[1]]), times)
        return found


class ProfileError(InvalidInputError):
    """Times that no machine takes, or that were measured on one that was too busy."""


@dataclass(frozen=True, kw_only=True)
class TimeProfile:
    """Times of one language model on one device in one number format, in milliseconds.

    batches: samples at once, growing. tokens: of each sample, growing. layer_ms: of one layer, a row for each batch.
    fixed_ms, drop_ms: [batch], of all that is not a layer, and of one drop. margin: [batch], the share by which single prefills
    were slower than the fit at times; empty in profiles of earlier versions.
    tower_ms: [batch], of the vision tower, for each visual token of one sample; empty in profiles of earlier versions.
    facts: what else is worth knowing (model, threads, versions).
    """

    dimensions: Dimensions
    device: str
    dtype: str
    batches: tuple[int, ...]
    tokens: tuple[int, ...]
    layer_ms: tuple[tuple[float, ...], ...]
    fixed_ms: tuple[float, ...]
    drop_ms: tuple[float, ...]
    margin: tuple[float, ...] = ()
    tower_ms: tuple[float, ...] = ()
    facts: Mapping[str, Any] | None = None

    def cost(self, batch: int) -> Measured:
        """The cost of a batch of this size, interpolated between measured sizes."""
        table = np.array(self.layer_ms)
        at = np.array(self.batches, dtype=np.float64)
        scale = 1.0 if batch <= at[-1] else batch / at[-1]  # a larger batch than any measured: in proportion
        layer = [float(np.interp(batch, at, column)) * scale for column in table.T]
        fixed, drop = (float(np.interp(batch, at, column)) * scale for column in (self.fixed_ms, self.drop_ms))
        margin = float(np.interp(batch, at, self.margin)) if self.margin else MARGIN
        tower = float(np.interp(batch, at, self.tower_ms)) * scale if self.tower_ms else 0.0
        return Measured(self.dimensions, self.tokens, tuple(layer), fixed, drop, batch, max(MARGIN, margin), tower)

    def faults(self) -> list[str]:
        """Inconsistencies of these times, as parts of a sentence; empty for a sound profile.

        Bounds are wide: what a busy machine measures passes, what no machine can do does not.
        """
        rows = (self.layer_ms, self.fixed_ms, self.drop_ms, *(each for each in (self.margin, self.tower_ms) if each))
        growing = all(a < b for row in (self.batches, self.tokens) for a, b in pairwise((0, *row)))
        if any(len(row) != len(self.batches) for row in rows) or not growing or not self.batches:
            return ["its batches and sizes do not grow, or have not a time each"]
        if any(len(row) != len(self.tokens) for row in self.layer_ms) or len(self.tokens) < 2:
            return [f"a layer has {len(self.layer_ms[0])} times for {len(self.tokens)} sizes"]
        table = np.array(self.layer_ms, dtype=np.float64)
        if not np.isfinite(table).all() or table.min() <= 0 or not np.isfinite([*self.fixed_ms, *self.margin]).all():
            return ["a layer takes no time, or one that is not a number"]
        found = [
            f"a drop takes {drop:.3g} ms in a batch of {batch}"
            for batch, drop in zip(self.batches, self.drop_ms, strict=True)
            if not (math.isfinite(drop) and drop > 0)
        ]
        found += [f"all beside the layers takes {fixed:.3g} ms" for fixed in self.fixed_ms if fixed < 0]
        found += [f"the vision tower takes {ms:.3g} ms for a token" for ms in self.tower_ms if not 0 <= ms < math.inf]
        found += [f"the margin is {margin:.3g}" for margin in self.margin if not 0 <= margin < 1]
        found += [
            f"half of the prefills in a batch of {batch} differ by more than {spread:.0%} from what is fitted to them"
            for batch, spread in zip(self.batches, (self.facts or {}).get("spread") or (), strict=False)
            if not spread <= _MOST_SPREAD
        ]
        for batch, row in zip(self.batches, table, strict=True):
            found += _scaling_faults(self.tokens, row.tolist(), f"tokens in a batch of {batch}")
        for size, column in zip(self.tokens, table.T, strict=True):
            found += _scaling_faults(self.batches, column.tolist(), f"samples of {size} tokens", slack=_BATCH_SLACK)
        return found

    def check(self, source: str) -> None:
        """Raise if the profile cannot be true. source: what it is, for the message ("The profile PATH")."""
        faults = self.faults()
        if faults:
            more = f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
            raise ProfileError(f"{source} cannot be true: {faults[0]}{more}. {_AGAIN}")

    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write it, by default where `load` looks for it. One that cannot be true is refused."""
        place = Path(path) if path is not None else _profile_path(self.dimensions, self.device, self.dtype)
        self.check(f"The profile for {place}")
        place.parent.mkdir(parents=True, exist_ok=True)
        data = {**asdict(self), "format": FORMAT, "facts": dict(self.facts or {})}
        files.write_json(place, data)
        return place

    @classmethod
    def load(cls, dimensions: Dimensions, device: str, dtype: str) -> Self:
        """The profile of a model on a device; an error says how to make it."""
        place = _profile_path(dimensions, device, dtype)
        if not place.is_file():
            raise InvalidInputError(
                f"A budget of time needs a profile of this model on {device} in {dtype}, and there is none ({place}). "
                "Run `vispco profile MODEL` once on this machine."
            )
        return cls.read(place)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read what `save` wrote; a file that is damaged or cannot be true is refused by name."""
        data = files.read_json_object(Path(path), what="profile", remedy="Run `vispco profile MODEL` again.")
        if data.get("format") != FORMAT:
            raise InvalidInputError(f"{path} is not a profile. Run `vispco profile MODEL` again.")
        try:
            with parsing("a profile", _AGAIN):
                found = cls(
                    dimensions=Dimensions.from_dict(data["dimensions"]),
                    device=data["device"],
                    dtype=data["dtype"],
                    batches=tuple(map(int, data["batches"])),
                    tokens=tuple(map(int, data["tokens"])),
                    layer_ms=tuple(tuple(map(float, row)) for row in data["layer_ms"]),
                    fixed_ms=tuple(map(float, data["fixed_ms"])),
                    drop_ms=tuple(map(float, data["drop_ms"])),
                    margin=tuple(map(float, data.get("margin", ()))),
                    tower_ms=tuple(map(float, data.get("tower_ms", ()))),
                    facts=dict(data.get("facts") or {}),
                )
                found.check(f"The profile {path}")
        except ProfileError:
            raise
        except InvalidInputError as error:
            raise InvalidInputError(f"{path}: {error}") from error
        return found


def _scaling_faults(work: Sequence[int], times: Sequence[float], what: str, slack: float = 1.0) -> list[str]:
    """Sizes whose times fall or rise as no machine's do, as a part of a sentence: the worst pair, if any."""
    pairs = [(i, j) for j in range(len(work)) for i in range(j) if work[j] >= _TWICE * work[i]]
    excess = [
        max(times[i] / times[j] / _FALL, times[j] / times[i] / (_RISE * (work[j] / work[i]) ** 2)) for i, j in pairs
    ]
    if not excess or max(excess) <= slack:
        return []
    i, j = pairs[int(np.argmax(excess))]
    return [f"a layer takes {times[i]:.3g} ms with {work[i]} and {times[j]:.3g} ms with {work[j]} {what}"]


def _profile_path(dimensions: Dimensions, device: str, dtype: str) -> Path:
    """Where the profile of a model lies: $XDG_CACHE_HOME/vispco/profiles, or ~/.cache/vispco/profiles."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    sizes = {key: value for key, value in dimensions.to_dict().items() if key != "dtype_bytes"}
    name = hashlib.sha256(json.dumps(sizes, sort_keys=True).encode()).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return cache / "vispco" / "profiles" / f"{name}-{slug}-{dtype}.json"
