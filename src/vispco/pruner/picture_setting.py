"""How pictures reach the language model: the pixels with which they enter, and a cut inside the tower (`PictureSetting`).

`shrink_processor` makes processors whose pictures enter with a share of their pixels: smaller grids, smaller squares, or fewer
tiles.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Self

import torch
from PIL import Image
from torch import Tensor, nn

from vispco.core.cut_layout import CutLayout
from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.core.layout import TokenLayout
from vispco.core.pixels import check_pixels, shrunk_side
from vispco.core.schedule import Schedule
from vispco.engine.tower_cut import RECORD, TowerCut, TowerSetting
from vispco.families import family_of
from vispco.scorers import Chain


@dataclass(frozen=True)
class PictureSetting:
    """pixels: the share of its pixels with which a picture enters. cut: inside the vision tower; None where it is whole."""

    pixels: float = 1.0
    cut: TowerSetting | None = None

    def __post_init__(self) -> None:
        check_pixels(self.pixels)

    @classmethod
    def cut_at(cls, scorer: str, block: int, keep: float, num_blocks: int) -> Self:
        """A share of the cells stays from a block on."""
        retention = Schedule.stages({block: keep}, num_blocks, "Block").retention
        return cls(1.0, TowerSetting(Chain.of(f"{scorer}@tower.{block}"), retention))  # type: ignore[arg-type]

    @property
    def retention(self) -> tuple[float, ...] | None:
        """Before each block of the tower; see `Schedule.tower`."""
        return None if self.cut is None else self.cut.retention

    @property
    def name(self) -> str:
        """For people: 'divprune@tower.2 keeps 50%', '50% of the pixels'."""
        parts = [] if self.pixels == 1.0 else [f"{self.pixels:.0%} of the pixels"]
        if self.cut is not None:
            scorers = "+".join(f"{scorer.name}@tower.{block}" for block, scorer in self.cut.chain.tower)
            parts.append(f"{scorers} keeps {self.cut.retention[-1]:.0%}")
        return ", ".join(parts) or "the whole tower"

    def check(self, model: nn.Module) -> None:
        """Raise if the model's tower cannot be cut like this."""
        if self.cut is not None:
            TowerCut(family_of(model), model, self.cut)

    def join(self, chain: Chain) -> Chain:
        """A chain of the language model with this one's part inside the tower."""
        return chain if self.cut is None else replace(chain, tower=self.cut.chain.tower)

    def layout(self, model: nn.Module, inputs: Mapping[str, Any], answers: Tensor | None = None) -> TokenLayout:
        """The layout of a batch whose features were encoded in this way: what enters the language model."""
        found = family_of(model).layout(model, inputs, answers=answers, pixels=self.pixels)
        outputs = (inputs.get("mm_encoder_outputs") or {}).values()
        records = [getattr(output, RECORD).values for output in outputs if self.cut is not None and output is not None]
        if self.cut is None or not records:
            return found
        passed, spent = (torch.cat([each[name] for each in records]).cpu().numpy() for name in ("passed", "spent"))
        return CutLayout.of(found, passed, len(self.cut.retention), spent, rebuilt=self.cut.chain.rebuilds)

    def to_dict(self) -> dict[str, Any]:
        cut = None if self.cut is None else {"chain": self.cut.chain.to_dict(), "retention": self.cut.retention}
        return {"pixels": self.pixels, "cut": cut}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        cut = data.get("cut")
        own = None if cut is None else TowerSetting(Chain.of(cut["chain"]), tuple(cut["retention"]))
        return cls(float(data.get("pixels", 1.0)), own)


def shrink_processor(processor: Any, share: float) -> Any:
    """A processor of the same kind whose pictures enter with a share of their pixels; the given one stays as it is.

    Qwen: the grid that the processor would give a picture, its sides multiplied by the root of the share. LLaVA: squares of
    fewer patches, for which the tower interpolates its positions. InternVL, Idefics3, SmolVLM: fewer tiles. Others show every
    picture as the same number of tokens, and are refused.
    """
    if check_pixels(share) == 1.0:
        return processor
    tool, found = processor.image_processor, copy.copy(processor)
    size = dict(getattr(tool, "size", None) or {})
    if hasattr(tool, "merge_size") and size.get("longest_edge") and size.get("shortest_edge"):
        found.image_processor = _SmallerGrids(tool, share)
        video = getattr(processor, "video_processor", None)
        if video is not None:
            found.video_processor = copy.copy(video) if hasattr(video, "image_processor") else _NoVideos()
            found.video_processor.image_processor = found.image_processor
    elif hasattr(tool, "max_patches"):
        found.image_processor = _changed(tool, max_patches=max(tool.min_patches, round(share * tool.max_patches)))
    elif hasattr(tool, "max_image_size") and size.get("longest_edge"):
        tile = int(dict(tool.max_image_size)["longest_edge"])
        sides = shrunk_side(max(1, size["longest_edge"] // tile), share)
        found.image_processor = _changed(tool, size=type(tool.size)(**{**size, "longest_edge": sides * tile}))
    elif (patch := _llava_patch(processor)) is not None:
        changes = {}
        for name in ("size", "crop_size"):
            given: Any = getattr(tool, name, None)
            squares = {side: n for side, n in dict(given or {}).items() if n}
            if squares:
                smaller = {side: patch * shrunk_side(n // patch, share) for side, n in squares.items()}
                changes[name] = type(given)(**smaller)
        found.image_processor = _changed(tool, **changes)
    else:
        raise UnsupportedModelError(
            f"pixels={share:g} was given, but {type(processor).__name__} makes every picture the same number of tokens, whatever "
            "its size. Leave pixels out; Qwen-VL, LLaVA-1.5, InternVL, Idefics3 and SmolVLM take it."
        )
    return found


class _SmallerGrids:
    """Qwen's image processor, before which each picture is resized to a smaller grid of whole cells; all else is its own."""

    def __init__(self, tool: Any, share: float) -> None:
        self.tool, self.share = without_least_size(tool), share
        self._least = dict(tool.size)["shortest_edge"]
        self.side = int(tool.patch_size) * int(tool.merge_size or 1)

    def __getattr__(self, name: str) -> Any:
        if name in ("tool", "share"):  # not there yet, as in a copy
            raise AttributeError(name)
        return getattr(self.tool, name)

    def __call__(self, images: Any, *args: Any, size: Any = None, **kwargs: Any) -> Any:
        bounds = dict(self.tool.size) | {"shortest_edge": self._least} | dict(size or {})
        resize = kwargs.get("do_resize", True)

        def smaller(image: Any) -> Image.Image:
            return self._smaller(image, bounds if resize else None)

        return self.tool(images=_each(images, smaller), *args, **kwargs)  # noqa: B026 - images by name, as processors do

    def _smaller(self, image: Any, bounds: Any) -> Image.Image:
        from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import smart_resize  # noqa: PLC0415 - where needed

        if not isinstance(image, Image.Image):
            raise InvalidInputError(
                f"A picture of type {type(image).__name__} was given where pixels={self.share:g} is applied. Give PIL images."
            )
        height, width = image.height, image.width
        if bounds is not None:
            limits = {"min_pixels": bounds["shortest_edge"], "max_pixels": bounds["longest_edge"]}
            height, width = smart_resize(height, width, factor=self.side, **limits)
        rows, columns = (self.side * shrunk_side(max(1, n // self.side), self.share) for n in (height, width))
        return image.convert("RGB").resize((columns, rows), Image.Resampling.BICUBIC)


class _NoVideos:
    """In place of a video processor whose frames cannot be made smaller here."""

    image_processor: Any = None

    def __call__(self, *_: Any, **__: Any) -> Any:
        raise UnsupportedModelError(
            "A video was given to a pruner with pixels, which makes pictures smaller, and frames of this processor cannot be. "
            "Give the frames as pictures, or a pruner without pixels."
        )


def without_least_size(tool: Any) -> Any:
    """An image processor that does not enlarge small pictures: the least area, where it has one, becomes that of one token."""
    size: Any = getattr(tool, "size", None)
    known = dict(size) if size else {}
    if not (known.get("longest_edge") and known.get("shortest_edge")):
        return copy.deepcopy(tool)
    side = int(getattr(tool, "patch_size", 14)) * int(getattr(tool, "merge_size", 1) or 1)
    return _changed(tool, size=type(size)(**{**known, "shortest_edge": side * side}))


def _llava_patch(processor: Any) -> int | None:
    """The side of a patch, where the processor is LLaVA-1.5's; else None."""
    config = getattr(processor, "config", None)
    if config is not None:
        return int(config.vision_config.patch_size) if config.model_type == "llava" else None
    return int(processor.patch_size) if type(processor).__name__ == "LlavaProcessor" and processor.patch_size else None


def _changed(tool: Any, **changes: Any) -> Any:
    found = copy.deepcopy(tool)
    for name, value in changes.items():
        setattr(found, name, value)
    return found


def _each(images: Any, change: Callable[[Any], Any]) -> Any:
    """The same nest of lists with each picture changed."""
    return [_each(image, change) for image in images] if isinstance(images, list | tuple) else change(images)
