"""`Schedule`: the retention before each decoder layer, and before blocks of the vision tower, relative to all visual tokens."""

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError, parsing
from vispco.core.runs import files
from vispco.kernels import Kernel

_FORMAT_VERSION = 1
_LARGEST = 1e300  # also of a whole number, which may be too large for a float
_NOISE = 1e-9  # floating-point noise that is forgiven in a retention
_HALF = 0.5 + 1e-6  # rounds halves up; the guard is far above the noise of r * N_v and far below one token


def whole_tokens(retention: Tensor, num_visual: Tensor) -> Tensor:
    """Retention [..., L], num_visual [...] -> counts [..., L] (int64, CPU): round-half-up of r_i * N_v, never growing."""
    exact = retention.detach().to("cpu", torch.float64).numpy()
    return torch.from_numpy(_whole(exact, num_visual.cpu().numpy()))


def _whole(retention: Any, num_visual: Any) -> Any:
    """`whole_tokens` of host arrays."""
    counts = np.floor(retention * num_visual[..., None].astype(np.float64) + _HALF).astype(np.int64)
    return np.minimum.accumulate(counts, axis=-1)


def whole_cells(tower: Sequence[float], cells: int) -> tuple[int, ...]:
    """Whole cells of one picture that each block of the vision tower processes, at least one; see `Schedule.tower`."""
    counts = _whole(np.asarray(tower, dtype=np.float64), np.asarray(cells))
    return tuple(np.maximum(counts, min(cells, 1)).tolist())


@dataclass(frozen=True)
class Schedule:
    """The retention r_0..r_{L-1} of every layer's input, in [0, 1], non-increasing; one for all samples or one each.

    retention: L numbers, or B tuples of L numbers (one schedule per sample).
        r_0 is what enters the language model: a scorer of embeddings or vision features may lower it.
    tower: the retention before each block of the vision tower, the same for all samples; None where the tower is not cut.
        What leaves there never reaches the language model: r_0 is at most that of the last block.
    rebuilt: a scorer of the tower rebuilds what has left at its end (`ipcv`), so that r_0 may be 1 again.
    """

    retention: tuple[float, ...] | tuple[tuple[float, ...], ...]
    tower: tuple[float, ...] | None = None
    rebuilt: bool = False

    def __post_init__(self) -> None:
        given: Any = self.retention
        if not isinstance(given, list | tuple) or not given:
            raise InvalidInputError(
                f"retention={given!r} was given. Give one number per layer, or a list of such lists."
            )
        per_sample = isinstance(given[0], list | tuple)
        rows = given if per_sample else [given]
        checked = tuple(_checked(row, f" of sample {b}" if per_sample else "") for b, row in enumerate(rows))
        lengths = {len(row) for row in checked}
        if len(lengths) != 1:
            raise InvalidInputError(
                f"The schedules of the samples have {sorted(lengths)} layers. Give every sample the same number of layers."
            )
        object.__setattr__(self, "retention", checked if per_sample else checked[0])
        if self.tower is None:
            return
        tower = _checked(self.tower, " of the vision tower", "block")
        object.__setattr__(self, "tower", tower)
        first = max(row[0] for row in checked)
        if first > tower[-1] and not self.rebuilt:
            raise InvalidInputError(
                f"The retention is {tower[-1]:g} at the last block of the vision tower and {first:g} at layer 0. What leaves in "
                "the tower cannot come back: lower the retention of the layers, or use Schedule.with_tower."
            )

    @property
    def per_sample(self) -> bool:
        return isinstance(self.retention[0], tuple)

    @property
    def batch_size(self) -> int | None:
        """The number of samples of a per-sample schedule; None for one that holds for all."""
        return len(self.retention) if self.per_sample else None

    def of_sample(self, place: int) -> Self:
        """The schedule of one sample; that of all where they share one."""
        return replace(self, retention=self.retention[place]) if self.per_sample else self  # type: ignore[arg-type]

    @property
    def num_layers(self) -> int:
        first = self.retention[0]
        return len(first) if isinstance(first, tuple) else len(self.retention)

    def tensor(self) -> Tensor:
        """The retention as float64 [L] or [B, L]."""
        return torch.tensor(self.retention, dtype=torch.float64)

    def with_tower(
        self, stages: Mapping[int, float] | Sequence[tuple[int, float]], num_blocks: int, *, rebuilt: bool = False
    ) -> Self:
        """The same with a cut tower: block -> the retention from that block on. No layer keeps more, unless it is rebuilt."""
        found = Schedule.stages(stages, num_blocks, "Block").retention
        least = 1.0 if rebuilt else float(found[-1])  # type: ignore[arg-type]
        return type(self)(_nested(self.tensor().clamp(max=least)), found, rebuilt)  # type: ignore[arg-type]

    def counts(self, num_visual: Sequence[int], entering: Sequence[int] | None = None) -> Tensor:
        """Whole visual tokens that each layer processes: [B, L], int64, on the CPU.

        round-half-up of r_i * N_v of the original N_v; never growing. entering: what a cut tower left of them, picture by
        picture; layers that keep as much as its last block keep all of it.
        """
        if self.per_sample and len(self.retention) != len(num_visual):
            raise InvalidInputError(
                f"This schedule holds {len(self.retention)} samples and the batch has {len(num_visual)}. "
                "Give a batch of that size, or a schedule that holds for all samples."
            )
        original = np.asarray(num_visual, dtype=np.int64).reshape(-1)
        if (original < 0).any():
            raise InvalidInputError(f"num_visual={original.tolist()} was given. Numbers of tokens are 0 or more.")
        retention = np.asarray(self.retention, dtype=np.float64)
        counts = _whole(retention, original)
        if entering is not None:
            left = np.asarray(entering, dtype=np.int64)[:, None]
            last = 1.0 if self.tower is None or self.rebuilt else self.tower[-1]
            counts = np.where(retention >= last, left, np.minimum(counts, left))
        return torch.from_numpy(counts)

    @classmethod
    def full(cls, num_layers: int) -> Self:
        """Every token in every layer."""
        return cls((1.0,) * num_layers)

    @classmethod
    def single(cls, layer: int, keep: float, num_layers: int) -> Self:
        """All tokens before `layer`, the share `keep` of them from it on (FastV)."""
        return cls.stages({layer: keep}, num_layers)

    @classmethod
    def withdraw(cls, layer: int, num_layers: int) -> Self:
        """All tokens before `layer`, none from it on (VTW)."""
        return cls.stages({layer: 0.0}, num_layers)

    @classmethod
    def stages(
        cls, stages: Mapping[int, float] | Sequence[tuple[int, float]], num_layers: int, place: str = "Layer"
    ) -> Self:
        """Layer -> the retention from that layer on, in any order; all tokens before the first stage (PyramidDrop)."""
        pairs = sorted(stages.items() if isinstance(stages, Mapping) else stages)
        retention = [1.0] * num_layers
        for number, (layer, keep) in enumerate(pairs):
            if not 0 <= layer < num_layers or (number and pairs[number - 1][0] == layer):
                where = " of the vision tower" if place == "Block" else ""
                raise InvalidInputError(
                    f"{place} {layer} was given for a stage{where}. Name each {place.lower()} once, from 0 to {num_layers - 1}."
                )
            retention[layer:] = [keep] * (num_layers - layer)
        return cls(tuple(retention))

    @classmethod
    def from_kernel(cls, kernel: Kernel, params: Tensor, num_layers: int, *, gamma: float | None = None) -> Self:
        """The curve of a kernel: params [P] gives one schedule for all samples, [B, P] one per sample."""
        return cls(_nested(kernel(params.detach().double().cpu(), num_layers, gamma=gamma)))

    @classmethod
    def from_counts(cls, counts: Tensor, num_visual: int | Sequence[int]) -> Self:
        """From whole tokens, [L] with one N_v or [B, L] with one each; `counts(num_visual)` gives them back exactly."""
        original = torch.as_tensor(num_visual, dtype=torch.float64)
        if original.ndim != counts.ndim - 1 or original.shape != counts.shape[:-1]:
            raise InvalidInputError(
                f"Counts of shape {list(counts.shape)} and {list(original.shape)} numbers of visual tokens were given. "
                "Give [L] with one number, or [B, L] with B numbers."
            )
        retention = counts.to("cpu", torch.float64) / original.clamp_min(1.0)[..., None]
        # a sample without visual tokens loses none of them
        return cls(_nested(torch.where(original[..., None] > 0, retention, 1.0)))

    def to_dict(self) -> dict[str, Any]:
        tower: dict[str, Any] = {} if self.tower is None else {"tower": self.tower}
        tower |= {"rebuilt": True} if self.rebuilt else {}
        return {"version": _FORMAT_VERSION, "retention": self.retention, **tower}

    @classmethod
    @parsing("a schedule")
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        if not isinstance(data, Mapping) or not isinstance(data.get("retention"), list | tuple):
            raise InvalidInputError(
                'This is not a schedule: it has no list "retention". A schedule is {"version": 1, "retention": [1.0, ...]}.'
            )
        return cls(data["retention"], data.get("tower"), bool(data.get("rebuilt", False)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the schedule as JSON; the file appears whole or not at all."""
        files.write_json(path, self.to_dict(), indent=None)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        return cls.from_dict(files.read_json(path, what="schedule", remedy="Give a file written by Schedule.save."))


def _checked(row: Iterable[Any], where: str, place: str = "layer") -> tuple[float, ...]:
    """One row as exact floats; noise of NOISE is forgiven and removed."""
    values: list[float] = []
    for layer, value in enumerate(row if isinstance(row, list | tuple) else [row]):
        if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
            raise InvalidInputError(f"The retention{where} at {place} {layer} is {value!r}. Give a number in [0, 1].")
        if not -_NOISE <= value <= 1.0 + _NOISE:
            raise InvalidInputError(f"The retention{where} at {place} {layer} is {value:g}. It must lie in [0, 1].")
        if values and value > values[-1] + _NOISE:
            raise InvalidInputError(
                f"The retention{where} grows from {values[-1]:g} at {place} {layer - 1} to {value:g} at {place} {layer}. "
                "A token that has left cannot come back: lower the later value or raise the earlier one."
            )
        values.append(min(max(float(value), 0.0), values[-1] if values else 1.0))
    if not values:
        raise InvalidInputError(f"The schedule{where} is empty. Give one retention per {place}.")
    return tuple(values)


def _nested(retention: Tensor) -> tuple[float, ...] | tuple[tuple[float, ...], ...]:
    values = retention.tolist()
    return cast("tuple[float, ...]", tuple(tuple(v) if isinstance(v, list) else v for v in values))
