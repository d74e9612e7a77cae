"""`TowerShape`: the sizes of a vision tower and its projector, read from a config, and the FLOPs that they take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.layout import Array, ImageSizes, TokenLayout
from vispco.core.pixels import least_whole_side

Segments: TypeAlias = "list[list[int]]"
"""For each block, the cells of each group of patches that attend to one another."""


@dataclass(frozen=True, kw_only=True)
class TowerShape:
    """Sizes of a tower. A cell is the patches of one visual token: a merge group, a pooling cell or a shuffle cell.

    patch_inputs: numbers in one patch of pixels. cell: patches of a cell. class_tokens: before the patches of a picture.
    windows: for each block the side of its windows in cells, or None where a frame attends as a whole.
    tile: the cells (rows, columns) of every whole picture, or None where pictures have sizes of their own.
    projector: FLOPs for each cell behind the last block. taps: blocks behind which a merger more runs (DeepStack), with
    `tap` FLOPs for each cell. head_patch, head: FLOPs of a pooling head, for each patch and for each picture.
    projects_all: the projector reads the whole grid, so that a cut tower does not make it cheaper.
    """

    width: int
    heads: int
    head_dim: int
    ffn: int
    gated: bool
    patch_inputs: int
    cell: int
    windows: tuple[int | None, ...]
    projector: int
    tile: tuple[int, int] | None = None
    class_tokens: int = 0
    taps: tuple[int, ...] = ()
    tap: int = 0
    head_patch: int = 0
    head: int = 0
    projects_all: bool = False

    @classmethod
    def from_config(cls, config: Any) -> TowerShape:
        """From the config of a vision-language model; refused in a sentence where its tower is not described."""
        kind = str(getattr(config, "model_type", ""))
        read = _READERS.get(kind)
        found = None if read is None else read(config)
        if found is None:
            raise UnsupportedModelError(
                f"The vision tower and projector of {kind or type(config).__name__} are not described, so their FLOPs are not "
                f"counted. Give a budget of the language model, such as 0.4; towers of {', '.join(_READERS)} are counted."
            )
        return found

    @property
    def num_blocks(self) -> int:
        return len(self.windows)

    def pictures(self, layout: TokenLayout) -> list[ImageSizes]:
        """The grids (frames, rows, columns) of each sample's pictures, in cells."""
        sizes = layout.image_sizes
        if sizes is None and self.tile is not None:
            rows, columns = self.tile
            return [((1, rows, columns),) * (number // (rows * columns)) for number in layout.num_visual]
        if sizes is None:
            raise InvalidInputError(
                "The sizes of the pictures did not come with the inputs, so the FLOPs of the vision tower are not known. "
                "Pass image_grid_thw, or give a budget of the language model, such as 0.4."
            )
        index = layout.image_index.cpu().numpy()
        return [tuple(sizes[int(image)] for image in np.unique(row[row >= 0])) for row in index]

    def unshrunk(self, layout: TokenLayout) -> tuple[Array, Array]:
        """FLOPs and visual tokens of each sample, had its pictures entered whole: int64 [B] each. Tiles are counted as shown."""

        def side(cells: int) -> int:
            return least_whole_side(cells, layout.pixels)

        rows = self.pictures(layout)
        if self.tile is None:
            rows = [tuple((t, side(h), side(w)) for t, h, w in row) for row in rows]
        else:
            rows = [((1, *self.tile),) * len(row) for row in rows]
        tokens = [sum(t * h * w for t, h, w in row) for row in rows]
        return np.array([self.flops(row) for row in rows], dtype=np.int64), np.array(tokens, dtype=np.int64)

    def segments(self, pictures: ImageSizes) -> Segments:
        """The attention groups of each block for one sample's pictures, in cells."""
        found = {side: _groups(pictures, side) for side in set(self.windows)}
        return [found[side] for side in self.windows]

    def flops(self, pictures: ImageSizes, cells: Sequence[int] | None = None, segments: Segments | None = None) -> int:
        """FLOPs of one sample's tower and projector.

        pictures: grids in cells. cells: the number of cells that each block processes, [num_blocks]; None: all. With several
        attention groups the number alone does not say how they are divided: the dearest division is charged, whole groups
        first. segments: the cells of each group of each block, which is exact.
        """
        whole = self.segments(pictures)
        if segments is None:
            segments = whole if cells is None else [_packed(w, n) for w, n in zip(whole, cells, strict=True)]
        frames = sum(t for t, _, _ in pictures)
        patches = sum(t * h * w for t, h, w in pictures) * self.cell
        total = 2 * patches * self.patch_inputs * self.width
        inner = self.heads * self.head_dim
        token = 8 * self.width * inner + (6 if self.gated else 4) * self.width * self.ffn
        for number, groups in enumerate(segments):
            lengths = [group * self.cell + self.class_tokens for group in groups]
            total += token * sum(lengths) + 4 * inner * sum(length * length for length in lengths)
            projected = patches // self.cell if self.projects_all else sum(groups)
            total += self.tap * projected if number in self.taps else 0
        last = sum(segments[-1])
        return total + self.projector * projected + self.head_patch * last * self.cell + self.head * frames

    def sample_flops(self, layout: TokenLayout, cells: Array | None = None) -> Array:
        """FLOPs of each sample: int64 [B]. cells: see `flops`, [B, num_blocks]."""
        rows = self.pictures(layout)
        counts = [None] * len(rows) if cells is None else [list(map(int, row)) for row in cells]
        return np.array([self.flops(row, each) for row, each in zip(rows, counts, strict=True)], dtype=np.int64)


def account_sentence(share: float) -> str:
    """What a tower with this share of the whole prefill's FLOPs means for pruning."""
    return (
        f"Vision tower and projector take {share:.0%} of the whole prefill: pruning in the language model alone makes it at most "
        f"{1 / share:.2g} times cheaper."
    )


def _groups(pictures: ImageSizes, side: int | None) -> list[int]:
    if side is None:
        return [h * w for t, h, w in pictures for _ in range(t)]
    found = []
    for t, h, w in pictures:
        rows, columns = ([min(side, n - start) for start in range(0, n, side)] for n in (h, w))
        found += [a * b for a in rows for b in columns] * t
    return found


def _packed(groups: list[int], number: int) -> list[int]:
    """`number` cells in groups of at most these sizes, with the largest sum of squares; the groups keep their order."""
    found = [0] * len(groups)
    for place in sorted(range(len(groups)), key=lambda place: -groups[place]):
        found[place] = min(groups[place], number)
        number -= found[place]
    return found


def _qwen(config: Any) -> TowerShape:
    vision, kind = config.vision_config, config.model_type
    width = vision.embed_dim if kind == "qwen2_vl" else vision.hidden_size
    out = vision.hidden_size if kind == "qwen2_vl" else vision.out_hidden_size
    cell = vision.spatial_merge_size**2
    merger = 2 * (cell * width) ** 2 + 2 * cell * width * out
    side = vision.window_size // vision.spatial_merge_size // vision.patch_size if kind == "qwen2_5_vl" else None
    full = vision.fullatt_block_indexes if kind == "qwen2_5_vl" else range(vision.depth)
    return TowerShape(
        width=width,
        heads=vision.num_heads,
        head_dim=width // vision.num_heads,
        ffn=int(width * vision.mlp_ratio) if kind == "qwen2_vl" else vision.intermediate_size,
        gated=kind == "qwen2_5_vl",
        patch_inputs=vision.in_channels * vision.temporal_patch_size * vision.patch_size**2,
        cell=cell,
        windows=tuple(None if block in full else side for block in range(vision.depth)),
        projector=merger,
        taps=tuple(vision.deepstack_visual_indexes) if kind == "qwen3_vl" else (),
        tap=merger,
    )


def _encoder(config: Any, step: int, projector: int, *, class_tokens: int = 0, head: bool = False) -> TowerShape:
    """A tower of plain encoder layers over squares; step: patches of a cell's side."""
    vision = config.vision_config
    size, patch = (n if isinstance(n, int) else n[0] for n in (vision.image_size, vision.patch_size))
    width, side = vision.hidden_size, size // patch // step
    return TowerShape(
        width=width,
        heads=vision.num_attention_heads,
        head_dim=width // vision.num_attention_heads,
        ffn=vision.intermediate_size,
        gated=False,
        patch_inputs=3 * patch * patch,
        cell=step * step,
        windows=(None,) * vision.num_hidden_layers,
        projector=projector,
        tile=(side, side),
        class_tokens=class_tokens,
        head_patch=4 * width * (width + 1) if head else 0,  # keys and values, and one query's row of attention
        head=4 * width * (width + vision.intermediate_size) if head else 0,
    )


def _has_head(vision: Any) -> bool:
    return vision.model_type == "siglip_vision_model" and bool(getattr(vision, "vision_use_head", True))


def _llava(config: Any) -> TowerShape | None:
    vision, text = config.vision_config, config.text_config.hidden_size
    known = vision.model_type in ("clip_vision_model", "siglip_vision_model")
    clip = vision.model_type == "clip_vision_model"
    if not known or config.vision_feature_select_strategy != ("default" if clip else "full"):
        return None
    read = config.vision_feature_layer
    width = vision.hidden_size * (1 if isinstance(read, int) else len(read))
    return _encoder(config, 1, 2 * text * (width + text), class_tokens=int(clip), head=_has_head(vision))


def _gemma3(config: Any) -> TowerShape:
    vision = config.vision_config
    step = vision.image_size // vision.patch_size // int(config.mm_tokens_per_image**0.5)
    projector = 2 * vision.hidden_size * config.text_config.hidden_size
    return replace(_encoder(config, step, projector, head=_has_head(vision)), projects_all=True)


def _internvl(config: Any) -> TowerShape | None:
    step, text = round(1 / config.downsample_ratio), config.text_config.hidden_size
    if config.vision_feature_select_strategy != "default":
        return None
    projector = 2 * text * (config.vision_config.hidden_size * step * step + text)
    return _encoder(config, step, projector, class_tokens=1)


def _idefics(config: Any) -> TowerShape:
    step = config.scale_factor
    projector = 2 * config.vision_config.hidden_size * step * step * config.text_config.hidden_size
    return _encoder(config, step, projector)


_READERS: dict[str, Callable[[Any], TowerShape | None]] = {
    **dict.fromkeys(("qwen2_vl", "qwen2_5_vl", "qwen3_vl"), _qwen),
    "llava": _llava,
    "gemma3": _gemma3,
    "internvl": _internvl,
    **dict.fromkeys(("idefics3", "smolvlm"), _idefics),
}
