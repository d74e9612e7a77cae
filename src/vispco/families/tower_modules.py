"""`TowerModules`: where the blocks of a vision tower are, and how its patches become visual tokens. For cuts inside it."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor, nn

from vispco.core.errors import UnsupportedModelError
from vispco.core.layout import Array, ImageSizes
from vispco.families.tower_shape import TowerShape

Order: TypeAlias = Callable[[Mapping[str, Any]], tuple[ImageSizes, Array]]
"""(arguments of the tower) -> (grids in cells, for each cell in the order of the tower its number in that of the prompt)."""
Side: TypeAlias = Literal["input", "output"]


@dataclass(frozen=True, kw_only=True, eq=False)
class TowerModules:
    """A tower's modules, as a cut needs them. A cell is the patches of one visual token, see `TowerShape`.

    tower: takes the pixels. blocks: in order. readable: the number of blocks before the first state that the projector reads:
    cells leave before one of them. projectors: modules that map cells to visual tokens.
    widened: the module whose input or output must have all patches; the projectors behind it are handed the cells that are
    left again, unless they pool patches themselves. order: of a tower that packs pictures of any size into one row of
    patches; None for one that takes a batch of squares. ends: modules that are handed what a block has computed, on its way to
    the language model.
    """

    tower: nn.Module
    blocks: list[nn.Module]
    readable: int
    projectors: tuple[nn.Module, ...]
    widened: tuple[nn.Module, Side] | None = None
    order: Order | None = None
    ends: tuple[nn.Module, ...]


def tower_modules(model: nn.Module, base: nn.Module) -> TowerModules:
    """The modules of a model whose tower is described; refused in a sentence where it reads more than its last states."""
    config: Any = base.config
    kind = config.model_type
    found: TowerModules | None = _FINDERS[kind](base, config) if kind in _FINDERS else None
    if found is None:
        raise UnsupportedModelError(
            f"Tokens cannot leave inside the vision tower of {type(model).__name__} as it is configured: which of its states the "
            "language model reads is not known. Use a chain and a schedule without a tower part."
        )
    return found


def patch_order(shape: TowerShape) -> Tensor:
    """The patches of each cell of a square, as places in the rows of the square: int64 [cells, patches of a cell]."""
    assert shape.tile is not None  # noqa: S101 - asked for towers of squares alone
    step, (rows, columns) = round(shape.cell**0.5), shape.tile
    places = torch.arange(rows * columns * shape.cell).view(rows, step, columns, step)
    return places.transpose(1, 2).reshape(rows * columns, shape.cell)


def pixels_by_cell(shape: TowerShape, pixels: Tensor, grid: tuple[int, int, int]) -> Tensor:
    """The numbers of each cell of pictures [I, C, H, W] with these cells, row by row: [I * cells, numbers of a cell]."""
    (_, rows, columns), (number, channels) = grid, pixels.shape[:2]
    side = round((shape.patch_inputs // channels * shape.cell) ** 0.5)
    parts = pixels[..., : rows * side, : columns * side].reshape(number, channels, rows, side, columns, side)
    return parts.permute(0, 2, 4, 1, 3, 5).reshape(number * rows * columns, -1)


def window_order(grids: ImageSizes, side: int) -> Array:
    """The cells of pictures frame by frame, and window by window in a frame, as Qwen2.5-VL sorts them: int64 [T]."""
    found, start = [], 0
    for frames, rows, columns in grids:
        row, column = np.divmod(np.arange(rows * columns), columns)
        inside = np.argsort(row // side * columns + column // side, kind="stable")
        found += [start + frame * len(inside) + inside for frame in range(frames)]
        start += frames * len(inside)
    return np.concatenate(found)


def _qwen(base: Any, _: Any) -> TowerModules:
    tower = base.visual

    def order(call: Mapping[str, Any]) -> tuple[ImageSizes, Array]:
        merge = tower.spatial_merge_size
        grids = tuple((t, h // merge, w // merge) for t, h, w in call["grid_thw"].tolist())  # a wait: sizes are data
        if not hasattr(tower, "window_size"):
            return grids, np.arange(sum(t * h * w for t, h, w in grids))
        return grids, window_order(grids, tower.window_size // merge // tower.patch_size)

    mergers = (tower.merger, *getattr(tower, "deepstack_merger_list", ()))
    blocks = list(tower.blocks)
    return TowerModules(tower=tower, blocks=blocks, readable=len(blocks), projectors=mergers, order=order, ends=mergers)


def _encoder(base: Any, config: Any, *, pools: bool = False) -> TowerModules:
    """CLIP and SigLIP towers. pools: the projector reads the whole grid."""
    tower, projector = base.vision_tower, base.multi_modal_projector
    inner = getattr(tower, "vision_model", tower)
    blocks = list(inner.encoder.layers)
    read = getattr(config, "vision_feature_layer", None)  # an index of the hidden states: 0 is before the first block
    read = [len(blocks)] if read is None else read if isinstance(read, list | tuple) else [read]
    first = min(index if index >= 0 else len(blocks) + 1 + index for index in read)
    return TowerModules(
        tower=tower,
        blocks=blocks,
        readable=first,
        projectors=(projector,),
        widened=(projector, "input") if pools else None,
        ends=(inner.post_layernorm if pools else projector,),
    )


def _internvl(base: Any, config: Any) -> TowerModules | None:
    if config.vision_feature_layer != -1:
        return None
    tower, blocks = base.vision_tower, list(base.vision_tower.encoder.layer)
    return TowerModules(
        tower=tower,
        blocks=blocks,
        readable=len(blocks),
        projectors=(base.multi_modal_projector,),
        widened=(tower.layernorm, "output"),
        ends=(tower.layernorm,),
    )


def _idefics(base: Any, _: Any) -> TowerModules:
    tower, blocks = base.vision_model, list(base.vision_model.encoder.layers)
    return TowerModules(
        tower=tower,
        blocks=blocks,
        readable=len(blocks),
        projectors=(base.connector.modality_projection,),
        widened=(base.connector, "input"),
        ends=(tower.post_layernorm,),
    )


_FINDERS: dict[str, Callable[[Any, Any], TowerModules | None]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"), _qwen),
    "llava": _encoder,
    "gemma3": functools.partial(_encoder, pools=True),
    "internvl": _internvl,
    **dict.fromkeys(("idefics3", "smolvlm"), _idefics),
}
