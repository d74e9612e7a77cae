"""Cuts inside the vision tower: hooks on its blocks by which whole cells leave before the language model sees them.

A cell is the patches of one visual token. Cells leave picture by picture (or video by video), so that a picture is cut alike
alone and among others. Blocks behind a cut are handed the cells that are left, with their rotary embeddings and with the bounds
of their windows and frames; projectors run on those cells, and their outputs are put back into their places, with zeros for
the others, which then never enter a layer of the language model (`TokenLayout.entering`).
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.layout import Array, ImageSizes, TokenLayout
from vispco.core.pixels import shrunk_side
from vispco.core.schedule import whole_cells
from vispco.cost.dimensions import Dimensions
from vispco.engine.vision import TokenVision
from vispco.families import Family
from vispco.families.tower_modules import patch_order
from vispco.families.tower_shape import TowerShape
from vispco.scorers.base import Scorer
from vispco.scorers.chain import Chain
from vispco.scorers.context import ScoringContext

RECORD = "vispco_tower_cut"
"""The attribute of an encoder's output under which the record of a cut travels with features encoded beforehand."""
ENCODERS = ("get_image_features", "get_video_features")


@dataclass(eq=False)
class TowerRun:
    """One run of the tower on some pictures, by cells in the order of the tower.

    order: the number of each cell in the prompt. counts: cells of each picture before each block, [I, blocks].
    cells: int64 [n], those that are left. patches: where their patches were, in the tensors that the tower makes: [n * cell], or
    [I, class tokens + n / I * cell] for towers of squares; None as long as nothing has left.
    """

    shape: TowerShape
    grids: ImageSizes
    order: Array
    counts: Array
    cells: Array
    patches: Tensor | None = None
    divided: dict[int, tuple[Array, Array]] = field(
        default_factory=dict
    )  # by block behind a cut: its cells, their groups
    passed: Array = field(init=False)  # int64 [T], how many blocks have processed each cell
    scoring: Array = field(init=False)  # int64 [I], FLOPs

    def __post_init__(self) -> None:
        self.sizes = np.array([t * h * w for t, h, w in self.grids])
        self.picture = np.repeat(np.arange(len(self.grids)), self.sizes)  # of each cell: [T]
        self.passed = np.full(len(self.order), self.shape.num_blocks)
        self.scoring = np.zeros(len(self.grids), dtype=np.int64)

    @property
    def places(self) -> Array:
        """For towers of squares, the cells that are left as places in their picture: [I, n / I]."""
        return (self.cells % int(self.sizes[0])).reshape(len(self.sizes), -1)

    def flops(self, number: int) -> int:
        """What the tower has spent on one picture, the choices included."""
        segments = self.shape.segments((self.grids[number],))
        for block, (cells, groups) in self.divided.items():
            inside = np.bincount(groups[self.picture[cells] == number])
            segments[block] = inside[inside > 0].tolist()
        return self.shape.flops((self.grids[number],), segments=segments) + int(self.scoring[number])

    def record(self) -> TokenVision:
        """By visual token in the order of the prompt: 'passed', and 'spent', the picture's FLOPs at its first token."""
        passed, spent = np.empty_like(self.passed), np.zeros(len(self.order), dtype=np.int64)
        passed[self.order] = self.passed
        spent[np.cumsum(self.sizes) - self.sizes] = [self.flops(number) for number in range(len(self.grids))]
        return TokenVision({"passed": torch.from_numpy(passed), "spent": torch.from_numpy(spent)})


class _Local(threading.local):
    run: TowerRun | None = None
    records: tuple[TokenVision, ...] = ()


class TowerCut:
    """Cuts the vision tower of a model while it is installed. retention: before each block, as `Schedule.tower`.

    pixels: the share of their pixels with which pictures enter.
    """

    def __init__(
        self, family: Family, model: nn.Module, chain: Chain, retention: tuple[float, ...], pixels: float = 1.0
    ) -> None:
        self.shape, self.modules = family.tower_shape(model), family.tower_modules(model)
        if family.interpolates and self.shape.tile is not None:
            rows, columns = (shrunk_side(side, pixels) for side in self.shape.tile)
            self.shape = replace(self.shape, tile=(rows, columns))
        self.base, self.chain, self.retention = family.base(model), chain, retention
        self.sizes = replace(Dimensions.from_config(model.config), hidden=self.shape.width)
        self._check()
        self.pools = self.shape.pools
        self._signature = inspect.signature(self.modules.tower.forward)
        self._handles: list[Any] = []
        self._local = _Local()

    def _check(self) -> None:
        blocks, readable = len(self.modules.blocks), self.modules.readable
        if len(self.retention) != blocks:
            raise InvalidInputError(
                f"The schedule has {len(self.retention)} retentions of the vision tower, which has {blocks} blocks. Give one before "
                "each block, or use Schedule.with_tower."
            )
        falls = [
            b for b, (r, before) in enumerate(zip(self.retention, (1.0, *self.retention), strict=False)) if r < before
        ]
        if falls and falls[-1] >= readable:
            raise InvalidInputError(
                f"The schedule lets tokens leave before block {falls[-1]} of the vision tower, but the projector reads what enters "
                f"block {readable}. Let them leave before blocks 0 to {readable - 1}."
            )
        if falls and self.chain.tower_scorer_at(falls[0]) is None:
            raise InvalidInputError(
                f"The schedule lets tokens leave before block {falls[0]} of the vision tower, where the chain {str(self.chain)!r} has "
                f"no scorer. Name one, such as 'divprune@tower.{falls[0]}+...'."
            )
        if self.chain.needs_vision:
            raise UnsupportedModelError(
                f"The chain {self.chain.name!r} reads the states of the whole vision tower, which is cut here. Use scorers that do "
                "not read it, such as 'divprune' or 'fastv', or a schedule without a tower part."
            )

    def install(self) -> None:
        modules = self.modules
        self._before(modules.tower, self._begin)
        for number, block in enumerate(modules.blocks):
            self._before(block, lambda _, args, kwargs, number=number: self._enter(number, args, kwargs))
        if modules.widened is not None:
            module, side = modules.widened
            if side == "input":
                self._before(module, lambda _, args, kwargs: ((self._widen(args[0]), *args[1:]), kwargs))
            else:
                self._handles.append(module.register_forward_hook(lambda _, __, output: self._widen(output)))
        for projector in () if self.pools else modules.projectors:
            if modules.widened is not None:
                self._before(projector, lambda _, args, kwargs: ((self._narrow(args[0]), *args[1:]), kwargs))
            self._handles.append(projector.register_forward_hook(lambda _, __, output: self._put_back(output)))
        for name in ENCODERS:
            if (own := getattr(self.base, name, None)) is not None:
                self.base.__dict__[name] = self._recorded(own)

    def remove(self) -> None:
        """Safe in any state."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()
        for name in ENCODERS:
            if isinstance(own := self.base.__dict__.get(name), Callable) and getattr(own, "cut", None) is self:
                del self.base.__dict__[name]
        self._local = _Local()

    def begin(self, inputs: Mapping[str, Any]) -> None:
        """At the entry of the model: take over the records that came with features encoded beforehand."""
        encoded = inputs.get("mm_encoder_outputs") or {}
        found = [getattr(output, RECORD, None) for output in encoded.values() if output is not None]
        if None in found:
            raise UnsupportedModelError(
                "The vision tower is cut by this pruner, but features came that were encoded without it. Encode the pictures with "
                "the pruner on the model."
            )
        self._local.records = tuple(found)

    def entering(self, layout: TokenLayout) -> TokenLayout:
        """The layout of what the tower has left."""
        records, self._local.records = self._local.records, ()
        total = sum(len(record) for record in records)
        shown = sum(layout.num_visual)
        times = shown // total if total else 0
        if len(records) != 1 or times * total != shown:
            raise UnsupportedModelError(
                f"The vision tower was cut for {total} visual tokens, but the batch has {shown}. A cut tower serves pictures or "
                "videos, not both in one batch, and no features that were merged into the prompt beforehand."
            )
        values = {name: each.numpy() for name, each in records[0].values.items()}
        if times > 1:  # beams and several answers: every prompt several times in a row
            ends = np.cumsum(layout.num_visual[::times])[:-1]
            values = {
                name: np.concatenate([np.tile(part, times) for part in np.split(each, ends)])
                for name, each in values.items()
            }
        return layout.entering(values["passed"], self.shape.num_blocks, values["spent"])

    def _recorded(self, own: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(own)
        def encode(*args: Any, **kwargs: Any) -> Any:
            self._local.run = None
            output = own(*args, **kwargs)
            run, self._local.run = self._local.run, None
            if run is not None:
                record = run.record()
                self._local.records += (record,)
                if hasattr(output, "pooler_output"):
                    setattr(output, RECORD, record)
            return output

        encode.cut = self  # type: ignore[attr-defined]
        return encode

    def _begin(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = dict(self._signature.bind_partial(*args, **kwargs).arguments)
        if self.modules.order is not None:
            grids, order = self.modules.order({**bound, **bound.pop("kwargs", {})})
        else:
            assert self.shape.tile is not None  # noqa: S101 - of every tower that packs nothing
            number = len(next(iter(bound.values())))
            grids = ((1, *self.shape.tile),) * number
            order = np.arange(number * self.shape.tile[0] * self.shape.tile[1])
        counts = np.array([whole_cells(self.retention, t * h * w) for t, h, w in grids])
        self._local.run = TowerRun(self.shape, grids, order, counts, np.arange(len(order)))

    def _enter(self, block: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = self._local.run
        if run is None:
            return None
        hidden = args[0]
        left = np.bincount(run.picture[run.cells], minlength=len(run.grids))
        if (run.counts[:, block] < left).any():
            hidden = self._cut(run, block, hidden, left)
        if run.patches is None:
            return None
        kwargs = {name: self._argument(run, block, name, value) for name, value in kwargs.items()}
        rest = [_cut_mask(value, run.patches) for value in args[1:]]
        if self.modules.order is None:
            run.divided[block] = (run.cells, run.picture[run.cells])
        return (hidden, *rest), kwargs

    def _argument(self, run: TowerRun, block: int, name: str, value: Any) -> Any:
        """An argument of a block, for the cells that are left."""
        assert run.patches is not None  # noqa: S101 - asked by the caller
        if name == "position_embeddings":
            return tuple(each[run.patches] for each in value)
        if name == "attention_mask":
            return _cut_mask(value, run.patches)
        if name == "cu_seqlens":  # groups that have lost all of their cells are gone
            groups = np.searchsorted(value.cpu().numpy()[1:], run.cells * self.shape.cell, side="right")
            run.divided[block] = (run.cells, groups)
            lengths = np.bincount(groups) * self.shape.cell
            return functional.pad(torch.from_numpy(np.cumsum(lengths[lengths > 0])), (1, 0)).to(value)
        if name == "max_seqlen" and value is not None:
            return type(value)(np.bincount(run.divided[block][1]).max() * self.shape.cell)
        return value

    @torch.no_grad()
    def _choose(self, run: TowerRun, block: int, states: Tensor, left: Array) -> Array:
        """Which of the cells that are left stay, by their mean states [n, D]: bool [n]."""
        scorer = self.chain.tower_scorer_at(block)
        assert scorer is not None  # noqa: S101 - `_check` has asked
        keep, wanted = np.ones(len(run.cells), dtype=bool), run.counts[:, block]
        picture, shown = run.picture[run.cells], run.sizes
        for size, there, few in sorted(set(zip(shown.tolist(), left.tolist(), wanted.tolist(), strict=True))):
            if few >= there:
                continue
            alike = np.flatnonzero(
                (shown == size) & (left == there) & (wanted == few)
            )  # pictures that are chosen together
            rows = [np.flatnonzero(picture == number) for number in alike]
            rows = np.stack(
                [row[np.argsort(run.order[run.cells[row]])] for row in rows]
            )  # [G, cells], as in the prompt
            first = (np.cumsum(shown) - shown)[alike][:, None]
            context = self._context(run, block, (alike, size, few), run.order[run.cells[rows]] - first, states[rows])
            keep[rows] = scorer.select(context).keep.cpu().numpy()
            run.scoring[alike] += choice_flops(scorer, there, few, self.sizes)
        return keep

    def _context(
        self, run: TowerRun, block: int, asked: tuple[Array, int, int], places: Array, states: Tensor
    ) -> ScoringContext:
        """The view of a scorer. asked: pictures [G], their cells, how many stay. places: of the live cells in them, [G, m]."""
        alike, size, few = asked
        everything = np.ones((len(alike), size), dtype=bool)
        grids = tuple(run.grids[number] for number in alike)
        layout = TokenLayout(everything, everything, np.zeros(len(alike), dtype=np.int64), states.device, grids)
        if places.shape[1] < size:
            there = np.zeros_like(everything)
            np.put_along_axis(there, places, values=True, axis=1)
            layout = layout.entering(there.ravel().astype(np.int64), 1)
        counts = torch.full((len(alike),), few, device=states.device)
        return ScoringContext(
            *(block, layout, layout.is_visual_slot, counts, states, None, (few,) * len(alike)),
            hidden=states,
            memo={"visual_embeddings": states},
        )

    def _cut(self, run: TowerRun, block: int, hidden: Tensor, left: Array) -> Tensor:
        """Let cells leave before a block: hidden [P, D], or [I, P, D] -> the same, shorter."""
        cell, front, width = self.shape.cell, self.shape.class_tokens, hidden.shape[-1]
        squares = self.modules.order is None
        inside = hidden[:, front:] if squares else hidden
        if squares and run.patches is None and cell > 1:  # the patches of a cell side by side, from here on
            inside = inside[:, patch_order(self.shape).flatten().to(hidden.device)]
        states = inside.reshape(-1, cell, width)  # [n, cell, D]
        keep = self._choose(run, block, states.mean(1), left)
        run.passed[run.cells[~keep]] = block
        run.cells = run.cells[keep]
        kept = states[torch.from_numpy(keep).to(hidden.device)]
        if not squares:
            run.patches = torch.from_numpy((run.cells[:, None] * cell + np.arange(cell)).ravel()).to(hidden.device)
            return kept.reshape(-1, width)
        places = patch_order(self.shape)[torch.from_numpy(run.places)].flatten(1) + front  # [I, n / I * cell]
        run.patches = torch.cat([torch.arange(front).expand(len(places), -1), places], dim=1).to(hidden.device)
        return torch.cat([hidden[:, :front], kept.reshape(len(hidden), -1, width)], dim=1)

    def _widen(self, hidden: Tensor) -> Tensor:
        """All patches in their places, zeros for those that have left: [I, P', D] -> [I, P, D]."""
        run = self._local.run
        if run is None or run.patches is None:
            return hidden
        whole = hidden.new_zeros(
            len(hidden), self.shape.class_tokens + int(run.sizes[0]) * self.shape.cell, hidden.shape[-1]
        )
        return whole.scatter(1, run.patches[..., None].expand_as(hidden), hidden)

    def _narrow(self, cells: Tensor) -> Tensor:
        """What a projector reads, for the cells that are left: [I, C, D] -> [I, C', D]."""
        run = self._local.run
        if run is None or run.patches is None:
            return cells
        places = torch.from_numpy(run.places).to(cells.device)[..., None]
        return cells.gather(1, places.expand(-1, -1, cells.shape[-1]))

    def _put_back(self, output: Tensor) -> Tensor | None:
        """The outputs of a projector in their places, zeros for cells that have left: [T', D] -> [T, D], or [I, C, D]."""
        run = self._local.run
        if run is None or run.patches is None:
            return None
        whole = output.new_zeros(len(run.order), output.shape[-1])
        whole[torch.from_numpy(run.cells).to(output.device)] = output.reshape(-1, output.shape[-1])
        return whole.view(len(output), -1, output.shape[-1]) if self.modules.order is None else whole

    def _before(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))


def choice_flops(scorer: Scorer, there: int, kept: int, sizes: Dimensions) -> int:
    """FLOPs of choosing `kept` of `there` cells of one picture. sizes: with the tower's width as `hidden`."""
    once = scorer.setup_flops(0, there, sizes) + scorer.choice_flops(there, there, sizes)
    return int(once + kept * scorer.flops_per_kept(there, sizes))


def _cut_mask(mask: Any, patches: Tensor) -> Any:
    """An attention mask [I or 1, 1, P, P] of a tower of squares, for its patches [I, P']; other values as they are."""
    if not isinstance(mask, Tensor) or mask.dim() != 4:
        return mask
    rows = patches[:, None, :, None].expand(-1, -1, -1, mask.shape[-1])
    mask = mask.expand(len(patches), *mask.shape[1:]).gather(2, rows)
    return mask.gather(3, patches[:, None, None].expand(-1, -1, mask.shape[2], -1))
