"""What a prefill takes on one device, measured once: a file in the user's cache, from which `Measured` costs are made."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from vispco import files
from vispco.cost.dimensions import Dimensions
from vispco.cost.measured import MARGIN, Measured
from vispco.errors import InvalidInputError

FORMAT = "vispco-profile"


@dataclass(frozen=True, kw_only=True)
class TimeProfile:
    """Times of one language model on one device in one number format, in milliseconds.

    batches: samples at once, growing. tokens: of each sample, growing. layer_ms: of one layer, a row for each batch.
    fixed_ms, drop_ms: [batch], of all that is not a layer, and of one drop. margin: [batch], the share by which single prefills
    were slower than the fit at times; empty in profiles of earlier versions.
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
    facts: Mapping[str, Any] | None = None

    def cost(self, batch: int) -> Measured:
        """What a batch of so many samples takes: between two sizes that were measured, on the line between them."""
        table = np.array(self.layer_ms)
        at = np.array(self.batches, dtype=np.float64)
        scale = 1.0 if batch <= at[-1] else batch / at[-1]  # a larger batch than any measured: in proportion
        layer = [float(np.interp(batch, at, column)) * scale for column in table.T]
        fixed, drop = (float(np.interp(batch, at, column)) * scale for column in (self.fixed_ms, self.drop_ms))
        margin = float(np.interp(batch, at, self.margin)) if self.margin else MARGIN
        return Measured(self.dimensions, self.tokens, tuple(layer), fixed, drop, batch, max(MARGIN, margin))

    def save(self, path: str | os.PathLike[str] | None = None) -> Path:
        """Write it, by default where `load` looks for it."""
        place = Path(path) if path is not None else profile_path(self.dimensions, self.device, self.dtype)
        place.parent.mkdir(parents=True, exist_ok=True)
        data = {**asdict(self), "format": FORMAT, "facts": dict(self.facts or {})}
        files.write_json(place, data)
        return place

    @classmethod
    def load(cls, dimensions: Dimensions, device: str, dtype: str) -> Self:
        """The profile of a model on a device; an error says how to make it."""
        place = profile_path(dimensions, device, dtype)
        if not place.is_file():
            raise InvalidInputError(
                f"A budget of time needs a profile of this model on {device} in {dtype}, and there is none ({place}). "
                "Run `vispco profile MODEL` once on this machine."
            )
        return cls.read(place)

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        data = files.read_json_object(Path(path), what="profile", remedy="Run `vispco profile MODEL` again.")
        if data.get("format") != FORMAT:
            raise InvalidInputError(f"{path} is not a profile. Run `vispco profile MODEL` again.")
        return cls(
            dimensions=Dimensions.from_dict(data["dimensions"]),
            device=data["device"],
            dtype=data["dtype"],
            batches=tuple(data["batches"]),
            tokens=tuple(data["tokens"]),
            layer_ms=tuple(map(tuple, data["layer_ms"])),
            fixed_ms=tuple(data["fixed_ms"]),
            drop_ms=tuple(data["drop_ms"]),
            margin=tuple(data.get("margin", ())),
            facts=data.get("facts"),
        )


def profile_path(dimensions: Dimensions, device: str, dtype: str) -> Path:
    """Where the profile of a model lies: $XDG_CACHE_HOME/vispco/profiles, or ~/.cache/vispco/profiles."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    sizes = {key: value for key, value in dimensions.to_dict().items() if key != "dtype_bytes"}
    name = hashlib.sha256(json.dumps(sizes, sort_keys=True).encode()).hexdigest()[:12]
    slug = re.sub(r"[^a-z0-9]+", "-", device.lower()).strip("-")
    return cache / "vispco" / "profiles" / f"{name}-{slug}-{dtype}.json"
