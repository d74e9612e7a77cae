"""`TowerRun`: which cells of some pictures are left as a cut vision tower runs, and what that takes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from vispco.core.cut_layout import CutLayout
from vispco.core.errors import InvalidInputError
from vispco.core.layout import Array, ImageSizes, TokenLayout
from vispco.cost.dimensions import Dimensions
from vispco.engine.gather import gather_mask, merge
from vispco.engine.vision import TokenVision
from vispco.families.tower_modules import patch_order
from vispco.families.tower_shape import Segments, TowerShape
from vispco.scorers.base import Scorer
from vispco.scorers.context import Block, ScoringContext, VisionRecord

_NEIGHBOURS = 10  # from which a cell is rebuilt


@dataclass(frozen=True, eq=False)
class Drop:
    """Cells that left at one place and will be rebuilt.

    states: of all cells before that, [n, cell, D]; kept: which of them stayed, int64 [k]. nearest: for each picture those that
    left, int64 [a], and for each of them the places in `kept` of its nearest cells, int64 [a, up to 10].
    """

    states: Tensor
    kept: Tensor
    nearest: tuple[tuple[Tensor, Tensor], ...]


@dataclass(eq=False)
class TowerRun:
    """One run of the tower on some pictures, by cells in the order of the tower.

    order: the number of each cell in the prompt. counts: cells of each picture before each block, [I, blocks].
    masks: cells that have left stay in the tensors, and are hidden.
    pixels: [T, numbers of a cell], in the order of the prompt, where a scorer reads them.
    """

    shape: TowerShape
    grids: ImageSizes
    order: Array
    counts: Array
    masks: bool
    pixels: Tensor | None = None

    def __post_init__(self) -> None:
        self.sizes = np.array([t * h * w for t, h, w in self.grids])
        self.picture = np.repeat(np.arange(len(self.grids)), self.sizes)  # of each cell: [T]
        self.squares = self.shape.tile is not None  # tensors are [I, class tokens + P, D], else [P, D]
        self.cells: Array = np.arange(len(self.order))  # int64 [n], those that are left
        # where their patches were, in the tensors that the tower makes: [n * cell], or [I, class tokens + n / I * cell] for
        # squares; None as long as nothing has left
        self.patches: Tensor | None = None
        self.gone: Tensor | None = None  # bool [1 or I, P], patches that are hidden from attention; None where none are
        self.weights: Tensor | None = None  # float [T], how many cells each stands for, once some were merged
        self.drops: list[Drop] = []  # what will be rebuilt
        self.previous: Tensor | None = None  # what entered the block before, where a scorer reads it
        # by kind and block before a cut: the 'attention' that patches received, [I, P, 1], and their 'keys', [I, P, d]
        self.read: dict[tuple[str, int], list[Tensor]] = {}
        self.seen: dict[int, int] = {}  # by block, the patches whose attention was computed so far
        self.arguments: dict[tuple[str, int], tuple[Any, Any]] = {}  # see `argument`
        self.divided: dict[int, tuple[Array, Array]] = {}  # by block behind a cut: its cells, their groups
        self.passed = np.full(len(self.order), self.shape.num_blocks)  # int64 [T], blocks that have processed each cell
        self.scoring = np.zeros(len(self.grids), dtype=np.int64)  # FLOPs of each picture

    @property
    def left(self) -> Array:
        """The number of cells that are left of each picture: int64 [I]."""
        return np.bincount(self.picture[self.cells], minlength=len(self.grids))

    @property
    def places(self) -> Array:
        """For squares, the cells that are left as places in their picture: [I, n / I]."""
        return (self.cells % int(self.sizes[0])).reshape(len(self.sizes), -1)

    @property
    def is_whole(self) -> bool:
        """Whether tensors have all patches, in the order of the tower; else those of a cell stand side by side."""
        return self.masks or self.patches is None

    def class_tokens(self, values: Tensor) -> int:
        """The number of class tokens in tensors of squares [I, P, D]; the projector may be handed none."""
        cells = int(self.sizes[0]) if self.is_whole else self.places.shape[1]
        return values.shape[1] - cells * self.shape.cell

    def by_cell(self, values: Tensor) -> Tensor:
        """Values of patches, [P, D] or [I, P, D], for the cells that are left: [n, cell, D]."""
        if self.squares:
            values = values[:, self.class_tokens(values) :]
            if self.is_whole and self.shape.cell > 1:
                values = values[:, patch_order(self.shape).flatten().to(values.device)]
        states = values.reshape(-1, self.shape.cell, values.shape[-1])
        return states if self.gone is None else states[torch.from_numpy(self.cells).to(states.device)]

    def keep(self, block: int, hidden: Tensor, states: Tensor, keep: Array) -> Tensor:
        """Let cells leave: what enters the block, from hidden [P, D] or [I, P, D], shorter unless they are masked.

        states: [n, cell, D] of the cells that were left; keep: bool [n], which of them stay.
        """
        self.passed[self.cells[~keep]] = block
        self.cells = self.cells[keep]
        self.arguments.clear()
        front, cell = self.shape.class_tokens, self.shape.cell
        if self.squares:
            places = patch_order(self.shape)[torch.from_numpy(self.places)].flatten(1) + front  # [I, n / I * cell]
            patches = torch.cat([torch.arange(front).expand(len(places), -1), places], dim=1)
        else:
            patches = torch.from_numpy((self.cells[:, None] * cell + np.arange(cell)).ravel())
        self.patches = patches.to(hidden.device)
        if self.masks:
            gone = torch.ones(hidden.shape[:-1], dtype=torch.bool, device=hidden.device)
            self.gone = gone.scatter(-1, self.patches, value=False).view(-1, hidden.shape[-2])
            return hidden
        kept = states[torch.from_numpy(np.flatnonzero(keep)).to(hidden.device)]
        if not self.squares:
            return kept.reshape(-1, hidden.shape[-1])
        return torch.cat([hidden[:, :front], kept.reshape(len(hidden), -1, hidden.shape[-1])], dim=1)

    def widen(self, hidden: Tensor) -> Tensor:
        """All patches of squares in their places, zeros for those that have left: [I, P', D] -> [I, P, D]."""
        assert self.patches is not None  # noqa: S101 - asked by the caller
        length = self.shape.class_tokens + int(self.sizes[0]) * self.shape.cell
        whole = hidden.new_zeros(len(hidden), length, hidden.shape[-1])
        return whole.scatter(1, self.patches[..., None].expand_as(hidden), hidden)

    def narrow(self, cells: Tensor) -> Tensor:
        """What a projector of squares reads, for the cells that are left: [I, C, D] -> [I, C', D]."""
        places = torch.from_numpy(self.places).to(cells.device)[..., None]
        return cells.gather(1, places.expand(-1, -1, cells.shape[-1]))

    def put_back(self, output: Tensor) -> Tensor:
        """The outputs of a projector in their places, zeros for cells that have left: [T', D] -> [T, D], or [I, C, D]."""
        whole = output.new_zeros(len(self.order), output.shape[-1])
        whole[torch.from_numpy(self.cells).to(output.device)] = output.reshape(-1, output.shape[-1])
        return whole.view(len(output), -1, output.shape[-1]) if self.squares else whole

    def merged(self, states: Tensor, into: Array) -> Tensor:
        """Cells [n, cell, D] joined where `into` [n] says, patch by patch, each as heavy as the cells that it stands for."""
        if self.weights is None:
            self.weights = torch.ones(len(self.order), device=states.device)
        own, target = self.weights[torch.from_numpy(self.cells)], torch.from_numpy(into).to(states.device)
        joined = merge(states.flatten(1)[None], target[None], own[None])[0].view_as(states)
        self.weights[torch.from_numpy(self.cells)] = torch.zeros_like(own).index_add(0, target, own)
        return joined

    def will_rebuild(self, states: Tensor, keep: Array) -> None:
        """Remember the cells [n, cell, D] before those leave that are not to be kept, bool [n]."""
        picture, means, near = self.picture[self.cells], states.mean(1).float(), []
        places = np.cumsum(keep) - 1  # in those that are kept
        for number in np.unique(picture[~keep]):
            gone, kept = (torch.from_numpy(np.flatnonzero((picture == number) & each)) for each in (~keep, keep))
            gone, kept, there = (each.to(states.device) for each in (gone, kept, torch.from_numpy(places)[kept]))
            distance = means[kept].square().sum(-1) - 2 * means[gone] @ means[kept].T
            near.append((gone, there[distance.topk(min(_NEIGHBOURS, len(kept)), largest=False).indices]))
            self.scoring[number] += 2 * len(gone) * len(kept) * states.shape[-1]
        self.drops.append(Drop(states, torch.from_numpy(np.flatnonzero(keep)).to(states.device), tuple(near)))

    def rebuild(self, hidden: Tensor) -> Tensor:
        """All patches from the cells that are left, [P', D] -> [P, D] or [I, P', D] -> [I, P, D].

        What left has changed as its neighbours did.
        """
        states = self.by_cell(hidden)
        for drop in reversed(self.drops):
            change, whole = states - drop.states[drop.kept], drop.states.clone()
            whole[drop.kept] = states
            for gone, near in drop.nearest:
                whole[gone] += sum(change[each] for each in near.T) / near.shape[1]
            states = whole
        if not self.squares:
            return states.reshape(-1, hidden.shape[-1])
        whole = states.view(len(hidden), -1, hidden.shape[-1])
        if self.shape.cell > 1:
            whole = whole[:, patch_order(self.shape).flatten().argsort().to(whole.device)]
        return torch.cat([hidden[:, : self.class_tokens(hidden)], whole], dim=1)

    def bias(self, start: int, number: int, batch: int) -> Tensor:
        """The log of the sizes of patches [start, start + number) that are left, what is added to the logits: float [batch, number]."""
        assert self.weights is not None  # noqa: S101 - asked by the caller
        logs = self.weights[torch.from_numpy(self.cells)].log().repeat_interleave(self.shape.cell).view(batch, -1)
        front = logs.new_zeros(batch, self.shape.class_tokens)
        return torch.cat([front, logs], dim=1)[:, start : start + number]

    def argument(self, block: int, name: str, value: Any) -> Any:
        """An argument of a block, for the cells that are left. Blocks share their arguments: each is cut once."""
        assert self.patches is not None  # noqa: S101 - asked by the caller
        if value is None or name not in ("position_embeddings", "attention_mask", "cu_seqlens", "max_seqlen"):
            return value
        known = self.arguments.get((name, id(value)))
        if known is None:
            if name == "position_embeddings":
                cut: Any = tuple(each[self.patches] for each in value)
            elif name == "attention_mask":  # only squares have one
                cut = gather_mask(value, self.patches, self.patches, rows=self.patches)
            else:  # groups that have lost all of their cells are gone
                lengths = np.bincount(self.divided[block][1]) * self.shape.cell
                ends = torch.from_numpy(np.cumsum(lengths[lengths > 0]))
                cut = functional.pad(ends, (1, 0)).to(value) if name == "cu_seqlens" else type(value)(lengths.max())
            self.arguments[name, id(value)] = known = (value, cut)
        return known[1]

    def groups(self, block: int) -> Array:
        """The attention group in a block of each cell that is left: int64 [n]."""
        return np.searchsorted(np.cumsum(self.shape.segments(self.grids)[block]), self.cells, side="right")

    def segments(self, number: int) -> Segments:
        """The cells of each attention group of one picture, block by block; see `TowerShape.flops`."""
        segments = self.shape.segments((self.grids[number],))
        for block, (cells, groups) in self.divided.items():
            inside = np.bincount(groups[self.picture[cells] == number])
            segments[block] = inside[inside > 0].tolist()
        return segments

    def attention_flops(self, number: int, block: int) -> int:
        """What reading the attention of one picture's patches in a block takes."""
        shape = self.shape
        lengths = [cells * shape.cell + shape.class_tokens for cells in self.segments(number)[block]]
        rows = [1 if shape.class_tokens else length for length in lengths]
        return sum(2 * row * length for row, length in zip(rows, lengths, strict=True)) * shape.heads * shape.head_dim

    def record(self) -> TokenVision:
        """By visual token in the order of the prompt: 'passed', and 'spent', the picture's FLOPs at its first token."""
        passed, spent = np.empty_like(self.passed), np.zeros(len(self.order), dtype=np.int64)
        passed[self.order] = self.passed
        flops = [self.shape.flops((grid,), segments=self.segments(number)) for number, grid in enumerate(self.grids)]
        spent[np.cumsum(self.sizes) - self.sizes] = flops + self.scoring
        return TokenVision({"passed": torch.from_numpy(passed), "spent": torch.from_numpy(spent)})


@torch.no_grad()
def choose_cells(
    run: TowerRun, block: int, scorer: Scorer, seen: Mapping[str, Tensor], sizes: Dimensions
) -> tuple[Array, Array | None]:
    """Which of the cells that are left stay before a block, bool [n], and where each is merged into, int64 [n], None for nothing.

    What the choices take is added to the run.

    seen: by cell, [n, ...]: mean 'states', 'previous' ones, the 'attention' that they receive, and their 'keys'. sizes: with
    the tower's width as `hidden`.
    """
    left, wanted, shown, picture = run.left, run.counts[:, block], run.sizes, run.picture[run.cells]
    chosen: list[tuple[Array, int, Tensor]] = []  # cells [G, m], how many stay, and what, merged into what: [2, G, m]
    for size, there, few in sorted(set(zip(shown.tolist(), left.tolist(), wanted.tolist(), strict=True))):
        if few >= there:
            continue
        alike = np.flatnonzero((shown == size) & (left == there) & (wanted == few))  # pictures that are chosen together
        own = [np.flatnonzero(picture == number) for number in alike]
        rows: Array = np.stack([row[np.argsort(run.order[run.cells[row]])] for row in own])  # [G, m], as in the prompt
        places = run.order[run.cells[rows]] - (np.cumsum(shown) - shown)[alike][:, None]
        own_rows = {name: values[torch.from_numpy(rows)] for name, values in seen.items()}
        context = _context(tuple(run.grids[number] for number in alike), places, own_rows["states"], few)
        context.layer, context.previous_hidden = block, own_rows.get("previous")
        attention: dict[Block, Tensor] = {-1: own_rows["attention"][..., 0]} if "attention" in own_rows else {}
        keys: dict[Block, Tensor] = {-1: own_rows["keys"]} if "keys" in own_rows else {}
        pixels = None if run.pixels is None else run.pixels[torch.from_numpy(run.order[run.cells[rows]])]
        context.vision = VisionRecord(context.hidden, attention, keys=keys, pixels=pixels)
        selection = scorer.select(context)
        target = selection.keep if selection.merge is None else selection.merge.into
        chosen.append((rows, few, torch.stack([selection.keep.long(), target.long()])))
        run.scoring[alike] += scorer.tower_flops(there, few, sizes)
        if attention:
            run.scoring[alike] += np.array([run.attention_flops(number, block - 1) for number in alike.tolist()])
    keep, into = np.ones(len(run.cells), dtype=bool), np.arange(len(run.cells))
    # The one wait of a cut: the bounds of windows, the prompt behind the tower and its price depend on which cells are left.
    host = torch.cat([table.flatten() for _, _, table in chosen]).cpu().numpy()
    ends = np.cumsum([table.numel() for _, _, table in chosen])[:-1]
    for (rows, few, table), found in zip(chosen, np.split(host, ends), strict=True):
        kept, target = found.reshape(table.shape)
        if (kept.sum(axis=1) != few).any():
            raise InvalidInputError(
                f"The scorer {scorer.name!r} kept {int(kept[0].sum())} cells of a picture in the vision tower, where {few} are asked "
                "for. Use one there that keeps as many as it is told, such as 'divprune'."
            )
        keep[rows] = kept
        if scorer.merges:
            into[rows] = np.take_along_axis(rows, target, axis=1)
    return keep, into if scorer.merges else None


def _context(grids: ImageSizes, places: Array, states: Tensor, few: int) -> ScoringContext:
    """The view of a scorer on some pictures of one size. places: of their live cells [G, m]; states: [G, m, D]; few: stay."""
    number, size = len(grids), int(np.prod(grids[0]))
    everything = np.ones((number, size), dtype=bool)
    layout = TokenLayout(everything, everything, np.zeros(number, dtype=np.int64), states.device, grids)
    if places.shape[1] < size:
        there = np.zeros_like(everything)
        np.put_along_axis(there, places, values=True, axis=1)
        layout = CutLayout.of(layout, there.ravel().astype(np.int64), 1)
    counts = torch.full((number,), few, device=states.device)
    return ScoringContext(
        *(0, layout, layout.is_visual_slot, counts, states, None, (few,) * number),
        hidden=states,
        memo={"visual_embeddings": states},
    )
