"""Cuts inside the vision tower: hooks on its blocks by which whole cells leave before the language model sees them.

A cell is the patches of one visual token. Cells leave picture by picture (or video by video), so that a picture is cut alike
alone and among others. Blocks behind a cut are handed the cells that are left, with their rotary embeddings and with the bounds
of their windows and frames; projectors run on those cells, and their outputs are put back into their places, with zeros for
the others, which then never enter a layer of the language model (`CutLayout`).

Where cells are masked, every block and projector runs on all of them, and no other patch attends to those that have left.
"""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import wraps
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from vispco.core.cut_layout import CutLayout
from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.layout import TokenLayout
from vispco.core.schedule import whole_cells
from vispco.cost.dimensions import Dimensions, VisionSize
from vispco.engine.attention import FLASH, Attended, AttentionCall, AttentionTap, attend_masked, implementation_of
from vispco.engine.compensation import with_bias
from vispco.engine.tower_run import TowerRun, choose_cells
from vispco.engine.vision import TokenVision, TowerHooks, received_in_tower
from vispco.families import Family
from vispco.families.tower_modules import Side, pixels_by_cell, tower_modules
from vispco.scorers.chain import Chain

RECORD = "vispco_tower_cut"
"""The attribute of an encoder's output under which the record of a cut travels with features encoded beforehand."""
ENCODERS = ("get_image_features", "get_video_features")
MASKED = ("eager", "sdpa")  # attention functions that are replaced where patches are hidden


@dataclass(frozen=True)
class TowerSetting:
    """A cut of the vision tower. chain: whose scorers inside the tower choose. retention: before each block, `Schedule.tower`."""

    chain: Chain
    retention: tuple[float, ...]

    @property
    def key(self) -> str:
        """A name that is equal for cuts that keep the same cells."""
        return f"{'+'.join(f'{scorer!r}@{block}' for block, scorer in self.chain.tower)}: {self.retention}"


class _Local(threading.local):
    run: TowerRun | None = None
    records: tuple[TokenVision, ...] = ()


class TowerCut(TowerHooks):
    """Cuts the vision tower of a model while it is installed. masks: what leaves is hidden, not removed."""

    def __init__(self, family: Family, model: nn.Module, setting: TowerSetting, *, masks: bool = False) -> None:
        self.base, self.chain, self.retention, self.masks = family.base(model), setting.chain, setting.retention, masks
        self.shape, self.modules = family.tower_shape(model), tower_modules(model, self.base)
        vision = VisionSize(width=self.shape.width, heads=self.shape.heads)
        self.sizes = replace(Dimensions.from_config(model.config), hidden=self.shape.width, vision=vision)
        self._falls = [b for b, (before, r) in enumerate(pairwise((1.0, *self.retention))) if r < before]
        scorers = self._scorers = {b: s for b in self._falls if (s := self.chain.tower_scorer_at(b)) is not None}
        self._merges = any(scorer.merges for scorer in scorers.values())
        self._check()
        if self.chain.rebuilds:
            self.shape = replace(self.shape, projects_all=True)
            if not {*self.modules.ends} & {*self.modules.projectors}:  # a pooling head, too, reads what was rebuilt
                head, cell = self.shape.head_patch, self.shape.cell
                self.shape = replace(self.shape, projector=self.shape.projector + head * cell, head_patch=0)
        config: Any = getattr(model.config, "vision_config", None)
        self.side = int(config.image_size) if family.interpolates else 0  # of the pictures that the tower was made for
        self._signature = inspect.signature(self.modules.tower.forward)
        self._handles, self._local = [], _Local()
        self._reads = {
            b - 1: [kind for kind in ("attention", "keys") if getattr(scorer.needs_vision, kind)]
            for b, scorer in scorers.items()
            if scorer.needs_vision
        }
        self._kept_states = {b - 1 for b, scorer in scorers.items() if scorer.needs_previous_hidden}
        self._needs_pixels = any(scorer.needs_pixels for scorer in scorers.values())
        blocks = self.modules.blocks
        changed = range(self._falls[0] if self._falls and (self._merges or masks) else len(blocks), len(blocks))
        self._tap = AttentionTap({b: family.attention(blocks[b]) for b in {*self._reads, *changed}}, self._attend)

    def _check(self) -> None:
        blocks, readable, falls = len(self.modules.blocks), self.modules.readable, self._falls
        if len(self.retention) != blocks:
            raise InvalidInputError(
                f"The schedule has {len(self.retention)} retentions of the vision tower, which has {blocks} blocks. Give one before "
                "each block, or use Schedule.with_tower."
            )
        if falls and falls[-1] >= readable:
            raise InvalidInputError(
                f"The schedule lets tokens leave before block {falls[-1]} of the vision tower, but the projector reads what enters "
                f"block {readable}. Let them leave before blocks 0 to {readable - 1}."
            )
        if falls and falls[0] not in self._scorers:
            raise InvalidInputError(
                f"The schedule lets tokens leave before block {falls[0]} of the vision tower, where the chain {str(self.chain)!r} has "
                f"no scorer. Name one, such as 'divprune@tower.{falls[0]}+...'."
            )
        if self.chain.needs_vision:
            raise UnsupportedModelError(
                f"The chain {self.chain.name!r} reads the states of the whole vision tower, which is cut here. Use scorers that do "
                "not read it, such as 'divprune' or 'fastv', or a schedule without a tower part."
            )
        attention = implementation_of(self.modules.tower)
        if self._merges and attention in FLASH:
            raise UnsupportedModelError(
                f"The chain {str(self.chain)!r} merges tokens inside the vision tower, and flash attention takes no sizes. Call "
                "model.set_attn_implementation('sdpa')."
            )
        if self.masks and falls and attention not in MASKED:
            raise UnsupportedModelError(
                f"mode='mask' was given with a cut inside the vision tower, which runs attention as {attention!r}. There masking "
                f"serves {' and '.join(MASKED)}: call model.set_attn_implementation('sdpa'), or use mode='drop'."
            )

    def install(self) -> None:
        modules = self.modules
        self._before(modules.tower, self._begin)
        for number, block in enumerate(modules.blocks):
            self._before(block, lambda _, args, kwargs, number=number: self._enter(number, args, kwargs))
        if self.chain.rebuilds:
            for module in modules.ends:
                self._change(module, "input", self._rebuild)
        elif not self.masks:
            if modules.widened is not None:
                self._change(*modules.widened, TowerRun.widen)
            for projector in () if self.shape.projects_all else modules.projectors:
                if modules.widened is not None:
                    self._change(projector, "input", TowerRun.narrow)
                self._change(projector, "output", TowerRun.put_back)
        for name in ENCODERS:
            if (own := getattr(self.base, name, None)) is not None:
                self.base.__dict__[name] = self._recorded(own)
        super().install()

    def remove(self) -> None:
        super().remove()
        for name in ENCODERS:
            if getattr(self.base.__dict__.get(name), "cut", None) is self:
                del self.base.__dict__[name]
        self._local = _Local()

    def begin(self, inputs: Mapping[str, Any]) -> None:
        """At the entry of the model: take over the records that came with features encoded beforehand."""
        encoded = inputs.get("mm_encoder_outputs") or {}
        found: list[Any] = [getattr(output, RECORD, None) for output in encoded.values() if output is not None]
        if None in found:
            raise UnsupportedModelError(
                "The vision tower is cut by this pruner, but features came that were encoded without it. Encode the pictures with "
                "the pruner on the model."
            )
        self._local.records = tuple(found)

    def entering(self, layout: TokenLayout) -> CutLayout:
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
        rebuilt = self.chain.rebuilds
        return CutLayout.of(layout, values["passed"], self.shape.num_blocks, values["spent"], rebuilt=rebuilt)

    def _recorded(self, own: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(own)
        def encode(*args: Any, **kwargs: Any) -> Any:
            vars(self._local).pop("run", None)  # of a call that did not end
            output = own(*args, **kwargs)
            run: TowerRun | None = vars(self._local).pop("run", None)
            if run is not None:  # else the tower did not run
                self._local.records += (run.record(),)
                if hasattr(output, "pooler_output"):
                    setattr(output, RECORD, self._local.records[-1])
            return output

        encode.cut = self  # type: ignore[attr-defined]
        return encode

    def _begin(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        bound = dict(self._signature.bind_partial(*args, **kwargs).arguments)
        # [P, numbers of a patch]; of squares [I, C, H, W], or more axes before the last two
        pixels = next(iter(bound.values()))
        if self.modules.order is not None:
            grids, order = self.modules.order({**bound, **bound.pop("kwargs", {})})
        else:
            assert self.shape.tile is not None  # noqa: S101 - of every tower that packs nothing
            rows, columns = self.shape.tile
            if self.side:  # squares of another size than the tower's own: it interpolates its positions
                height, width = pixels.shape[-2:]
                rows, columns = rows * height // self.side, columns * width // self.side
            grids = ((1, rows, columns),) * len(pixels)
            order = np.arange(len(pixels) * rows * columns)
        if self._merges and any(t > 1 for t, _, _ in grids):
            raise UnsupportedModelError(
                f"The chain {str(self.chain)!r} merges tokens inside the vision tower, which serves pictures, not videos. Use one "
                "there that drops them, such as 'divprune'."
            )
        counts = np.array([whole_cells(self.retention, t * h * w) for t, h, w in grids])
        self._local.run = run = TowerRun(self.shape, grids, order, counts, self.masks)
        if self._needs_pixels:
            run.pixels = pixels_by_cell(self.shape, pixels, grids[0]) if run.squares else pixels.view(len(order), -1)

    def _attend(self, block: int, call: AttentionCall) -> Attended:
        """Keep what a scorer reads of the block before a cut; most packed towers call for each group."""
        run = self._local.run
        if run is None:
            return call.run()
        start, (batch, _, number, _) = run.seen.get(block, 0), call.key.shape
        run.seen[block] = start + number
        gone = None if run.gone is None else run.gone[:, start : start + number]
        if run.weights is not None:  # a merged cell is attended to as the cells that it stands for
            bias = run.bias(start, number, batch).to(call.query.dtype)
            mask = bias[:, None, None] if call.mask is None else with_bias(call.mask, bias, None, bias.dtype)
            call = replace(call, mask=mask)
        for kind in self._reads.get(block, ()):
            if kind == "keys":
                found = call.key.mean(1)
            else:
                found = received_in_tower(call, from_class=self.shape.class_tokens > 0, gone=gone)[..., None]
            run.read.setdefault((kind, block), []).append(found)  # [I, P, d], or [I, P, 1]
        return call.run() if gone is None else attend_masked(call, (~gone).float())

    def _enter(self, block: int, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        run = self._local.run
        if run is None:
            return None
        hidden = args[0]
        if (run.counts[:, block] < run.left).any():
            hidden = self._cut(run, block, hidden)
        run.previous = hidden if block in self._kept_states else None
        if run.patches is None:
            return None
        run.divided[block] = (run.cells, run.groups(block))
        if self.masks:
            return None
        kwargs = {name: run.argument(block, name, value) for name, value in kwargs.items()}
        rest = [run.argument(block, "attention_mask", value) for value in args[1:]]
        return (hidden, *rest), kwargs

    def _cut(self, run: TowerRun, block: int, hidden: Tensor) -> Tensor:
        """Let cells leave before a block; see `TowerRun.keep`."""
        scorer, states = self._scorers[block], run.by_cell(hidden)
        seen = {"states": states.mean(1)}
        if run.previous is not None:
            seen["previous"] = run.by_cell(run.previous).mean(1)
        for kind in self._reads.get(block - 1, ()):
            values = torch.cat(run.read.pop((kind, block - 1)), dim=1)  # [I, P, ...], or [1, P, ...] of a packed tower
            seen[kind] = run.by_cell(values if run.squares else values[0]).mean(1)
        keep, into = choose_cells(run, block, scorer, seen, self.sizes)
        states = states if into is None else run.merged(states, into)
        if scorer.rebuilds:
            run.will_rebuild(states, keep)
        return run.keep(block, hidden, states, keep)

    def _rebuild(self, run: TowerRun, hidden: Tensor) -> Tensor:
        if hidden.shape[-1] != self.shape.width:
            raise UnsupportedModelError(
                f"The chain {str(self.chain)!r} rebuilds what leaves in the vision tower, but the projector of this model reads the "
                "states behind several of its blocks. Use a scorer there that drops them, such as 'divprune'."
            )
        return run.rebuild(hidden)

    def _before(self, module: nn.Module, hook: Callable[..., Any]) -> None:
        self._handles.append(module.register_forward_pre_hook(hook, with_kwargs=True))

    def _change(self, module: nn.Module, side: Side, change: Callable[[TowerRun, Tensor], Tensor]) -> None:
        """Change what a module is handed, or what it returns, where cells have left."""

        def changed(states: Tensor) -> Tensor:
            run = self._local.run
            return states if run is None or run.patches is None else change(run, states)

        if side == "input":
            self._before(module, lambda _, args, kwargs: ((changed(args[0]), *args[1:]), kwargs))
        else:
            self._handles.append(module.register_forward_hook(lambda _, __, output: changed(output)))
