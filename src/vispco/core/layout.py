"""`TokenLayout`: positions of the visual, text and padding tokens of a batch. Scorers and the engine share it.

It is made on the host. Two masks are brought there once per prefill; all else is arithmetic of small integers, and what a
layer needs of it goes to the device once, when it is first asked for.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Generic, TypeAlias, TypeVar

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.core.indexing import packed

ImageSizes: TypeAlias = tuple[tuple[int, int, int], ...]
Array: TypeAlias = np.ndarray[Any, Any]
T = TypeVar("T")
_REMEMBERED, SMALL = 64, 1 << 13  # the number of cached layouts, and the largest one in tokens
_KNOWN: dict[tuple[Any, ...], dict[str, Any]] = {}  # what follows from the maps of a layout, by the maps


class _Shared(Generic[T]):
    """A property that is computed once for all layouts with the same maps: prompts of one size are frequent."""

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __set_name__(self, _: object, name: str) -> None:
        self.name = name

    def __get__(self, layout: TokenLayout, _: object = None) -> T:
        known: dict[str, T] = layout.known
        if self.name not in known:
            known[self.name] = self.compute(layout)
        found = layout.__dict__[self.name] = known[self.name]  # the next time Python finds it there
        return found


def _tensor(compute: Callable[[Any], Array]) -> _Shared[Tensor]:
    """A property: an array of the layout beside the model's inputs."""
    return _Shared(lambda layout: layout.on_device(compute(layout)))


@dataclass(frozen=True, eq=False)
class TokenLayout:
    """The tokens of one forward pass, sample by sample. It knows nothing of a model family.

    visual_map: bool [B, N] on the host, image and video placeholders. real_map: the same, everything but padding.
    query_at: int64 [B] on the host, position of the last instruction token of each sample, wherever the padding is.
    device: where the tensors of this layout are.
    sizes: for each image or video in order of appearance, its merged token grid (frames, rows, columns), where the family
        knows it; a function where asking means to wait for a device.
    tower: FLOPs of each sample's vision tower and projector; asked for by budgets of the whole prefill alone.
    read_map: bool [B, N] on the host, visual tokens whose output is read and that therefore never leave; None if there are none.
    pixels: the share of their pixels with which the pictures entered. unshrunk: where it is less than 1, the same FLOPs for the
        whole pictures, and their visual tokens.
    """

    visual_map: Array
    real_map: Array
    query_at: Array
    device: torch.device
    sizes: ImageSizes | Callable[[], ImageSizes | None] | None = None
    read_map: Array | None = None
    known: dict[str, Any] = field(default_factory=dict, repr=False)  # what follows from the maps alone, by name
    tower: Callable[[TokenLayout], Array] | None = None
    unshrunk: Callable[[TokenLayout], tuple[Array, Array]] | None = None
    pixels: float = 1.0
    gone: ClassVar[Tensor | None] = None  # tokens that have left inside the vision tower, bool [B, N]

    # What follows from the maps, on the host:
    batch_size: int = field(init=False)
    length: int = field(init=False)
    has_visual: bool = field(init=False)
    num_visual: tuple[int, ...] = field(init=False)  # visual tokens of each sample
    num_text: tuple[int, ...] = field(init=False)  # text tokens of each sample; padding is neither
    num_prompt: tuple[int, ...] = field(init=False)  # text tokens up to the query, without an answer behind it
    num_instruction: tuple[int, ...] = field(init=False)  # those of them that can see a visual token
    num_read: tuple[int, ...] = field(init=False)  # visual tokens of each sample whose output is read
    prompt_map: Array = field(init=False, repr=False)  # text up to the query: bool [B, N]
    instruction_map: Array = field(init=False, repr=False)  # that which can see a visual token: bool [B, N]
    slots: Array = field(init=False, repr=False)  # `visual_index`

    def __post_init__(self) -> None:
        batch, length = self.visual_map.shape
        text = self.real_map & ~self.visual_map
        prompt = text & (np.arange(length) <= self.query_at[:, None])
        instruction = prompt & np.logical_or.accumulate(self.visual_map, axis=1)
        read = np.zeros_like(text) if self.read_map is None else self.read_map
        maps = {"visual": self.visual_map, "text": text, "prompt": prompt, "instruction": instruction, "read": read}
        for name, marked in maps.items():
            object.__setattr__(self, f"num_{name}", tuple(marked.sum(axis=1).tolist()))
        found: dict[str, Any] = {"batch_size": int(batch), "length": int(length), "has_visual": any(self.num_visual)}
        found |= {"prompt_map": prompt, "instruction_map": instruction}
        found["slots"] = packed(self.visual_map, max(self.num_visual, default=0))
        for name, value in found.items():
            object.__setattr__(self, name, value)

    @classmethod
    def build(
        cls,
        visual: Tensor,
        real: Tensor | None = None,
        *,
        answers: Tensor | None = None,
        read: Tensor | None = None,
        image_sizes: ImageSizes | Callable[[], ImageSizes | None] | None = None,
        tower: Callable[[TokenLayout], Array] | None = None,
        unshrunk: Callable[[TokenLayout], tuple[Array, Array]] | None = None,
        pixels: float = 1.0,
    ) -> TokenLayout:
        """Read the layout off boolean masks [B, N].

        answers: tokens that a model would have to write itself. They are never queries: the last instruction token is the last
        real token before the first answer. read: positions whose output is read, besides the query and the last token.
        The masks are brought to the host here, once per prefill, so that no layer hook has to wait for a device.
        """
        given = [mask.bool() for mask in (visual, real, answers, read) if mask is not None]
        maps = iter((torch.stack(given) if len(given) > 1 else given[0][None]).cpu().numpy())
        seen = next(maps)
        there = np.ones_like(seen) if real is None else next(maps)
        asked = there if answers is None else there & ~np.logical_or.accumulate(next(maps), axis=1)
        query = np.where(asked.any(axis=1), seen.shape[1] - 1 - asked[:, ::-1].argmax(axis=1), -1)
        if query.min() < 0:
            raise InvalidInputError(
                f"Sample {int(query.argmin())} of the batch has no instruction token (only padding or answer tokens). "
                "Every sample needs at least one token of text."
            )
        visible = seen & there
        rows, last = np.arange(len(seen)), seen.shape[1] - 1 - there[:, ::-1].argmax(axis=1)
        needed = np.zeros_like(seen) if read is None else next(maps).copy()
        needed[rows, query] = needed[rows, last] = True
        needed &= visible
        stays = needed if needed.any() else None
        known: dict[str, Any] = {}
        if pixels == 1.0 and visible.size <= SMALL:
            maps_of = (visible, there, query) if stays is None else (visible, there, query, stays)
            key = (*(each.tobytes() for each in maps_of), visual.device)
            if key not in _KNOWN and len(_KNOWN) >= _REMEMBERED:
                _KNOWN.clear()
            known = _KNOWN.setdefault(key, {})
        return cls(visible, there, query, visual.device, image_sizes, stays, known, tower, unshrunk, pixels)

    @property
    def whole(self) -> TokenLayout:
        """The layout before any token left inside the vision tower; see `vispco.core.cut_layout`."""
        return self

    def in_whole(self, slots: Tensor) -> Tensor:
        """What is known of visual slots, bool [B, V], at the slots of `whole`; False for those that have left."""
        return slots

    @_Shared
    def prompt_sizes(self) -> Array:
        """Text, visual, instruction tokens and visual ones that never leave: what a price depends on; int64 [B, 4], host.

        Where pictures entered with fewer pixels, the visual tokens of whole pictures are a fifth column.
        """
        numbers: list[Any] = [self.num_prompt, self.num_visual, self.num_instruction, self.num_read]
        return np.array(numbers + ([] if self.pixels == 1.0 else [self.whole_pictures[1]]), dtype=np.int64).T

    @_Shared
    def read_slots(self) -> Tensor | None:
        """Which of the V slots hold a token that never leaves: bool [B, V]; None if there are none."""
        if self.read_map is None:
            return None
        return self.on_device(np.take_along_axis(np.pad(self.read_map, ((0, 0), (0, 1))), self.slots, axis=1))

    # bool [B, N]: image and video placeholders, and everything but padding
    visual = _tensor(lambda layout: layout.visual_map)
    real = _tensor(lambda layout: layout.real_map)
    # int64 [B] and [B, 1]: position of the last instruction token of each sample
    query = _tensor(lambda layout: layout.query_at)
    query_column = _tensor(lambda layout: layout.query_at[:, None])
    # int64 [B, V]: position in the sequence of each visual token, V the largest count; empty slots have N, or any place
    visual_index = _tensor(lambda layout: layout.slots)
    visual_columns = _tensor(lambda layout: np.minimum(layout.slots, layout.length - 1))
    # bool [B, V]: which of the V slots hold a token
    is_visual_slot = _tensor(lambda layout: layout.slots < layout.length)
    # int64 [B, N]: the visual slot of each token; V for text, V + 1 for padding
    slot_index = _tensor(lambda layout: layout.slot_at)

    @_Shared
    def query_is_last(self) -> bool:
        """Whether the query of every sample is the last token of all: padding, if any, stands in front."""
        return bool((self.query_at == self.length - 1).all())

    @_Shared
    def visual_shares(self) -> Tensor:
        """1 / N_v in the slots of each sample, 0 in empty ones: float32 [B, V]; the weights of a mean."""
        filled = self.slots < self.length
        return self.on_device((filled / filled.sum(axis=1, keepdims=True).clip(1)).astype(np.float32))

    @_Shared
    def slot_at(self) -> Array:
        """`slot_index` on the host."""
        count = self.slots.shape[1]
        found: Array = np.where(self.real_map, count, count + 1)
        found[self.visual_map] = (np.cumsum(self.visual_map, axis=1) - 1)[self.visual_map]
        return found

    @_Shared
    def instruction_index(self) -> Tensor:
        """Positions of the instruction's text tokens that can see a visual token; int64 [B, R], padded with N.

        Where a sample has none (no text after its picture), its last instruction token stands in.
        """
        index = packed(self.instruction_map, max(*self.num_instruction, 1))
        index[:, 0] = np.where(index[:, 0] == self.length, self.query_at, index[:, 0])
        return self.on_device(index)

    @_Shared
    def has_instruction(self) -> Tensor | None:
        """Which places of `instruction_index` hold a token: bool [B, R]; None if all do."""
        number = np.array(self.num_instruction).clip(1)
        if number.min() == number.max():
            return None
        return self.on_device(np.arange(number.max()) < number[:, None])

    @_Shared
    def after_image(self) -> Tensor:
        """Position of the first text token after the last visual one, else of the last instruction token: int64 [B]."""
        positions = np.arange(self.length)
        last = np.where(self.visual_map, positions, -1).max(axis=1, keepdims=True)
        first = np.where(self.prompt_map & (positions > last), positions, self.length).min(axis=1)
        return self.on_device(np.where(first == self.length, self.query_at, first))

    @cached_property
    def image_sizes(self) -> ImageSizes | None:
        """Token grid (frames, rows, columns) of each image or video, in order of appearance, where it is known.

        Sizes that are not those of the visual tokens there are (a class token beside each picture) are no sizes.
        """
        found = self.sizes() if callable(self.sizes) else self.sizes
        if found is None or sum(t * h * w for t, h, w in found) != sum(self.num_visual):
            return None
        return found

    @cached_property
    def tower_flops(self) -> Array:
        """FLOPs of each sample's vision tower and projector: int64 [B] on the host."""
        if self.tower is None:
            raise InvalidInputError(
                "The vision tower's FLOPs are not known here. Give a budget such as 0.4, without p."
            )
        return self.tower(self)

    @cached_property
    def whole_pictures(self) -> tuple[Array, Array]:
        """FLOPs of the tower and visual tokens of each sample in the unpruned model on whole pictures, for smaller ones on the
        smallest that they may be of, so that no budget is exceeded: int64 [B] each, on the host.
        """
        if self.pixels == 1.0:
            return self.tower_flops, np.asarray(self.num_visual, dtype=np.int64)
        if self.unshrunk is None:
            raise InvalidInputError("The whole pictures are not known here. Give a budget in milliseconds or bytes.")
        return self.unshrunk(self)

    @cached_property
    def image_at(self) -> Array:
        """`image_index` on the host."""
        filled = self.slots < self.length
        if self.image_sizes is not None:
            ends = np.cumsum([t * h * w for t, h, w in self.image_sizes])
            index = np.searchsorted(ends, self._order, side="right")
        else:  # a run of neighbouring visual tokens is one image
            previous = np.concatenate([self.slots[:, :1] - 2, self.slots[:, :-1]], axis=1)
            starts = (self.slots != previous + 1) & filled
            index = (np.cumsum(starts) - 1).reshape(starts.shape)
        return np.where(filled, index, -1)

    @cached_property
    def image_index(self) -> Tensor:
        """Which image (counted over the batch, in order) each visual slot belongs to; int64 [B, V], -1 for none."""
        return self.on_device(self.image_at)

    @cached_property
    def cell_at(self) -> Array | None:
        """`coordinates` on the host."""
        if self.image_sizes is None:
            return None
        table = np.concatenate([np.indices(size).reshape(3, -1).T for size in self.image_sizes])
        found = table[self._order.clip(0, len(table) - 1)]
        return np.where((self.slots < self.length)[..., None], found, -1)

    @cached_property
    def coordinates(self) -> Tensor | None:
        """(frame, row, column) of each visual slot in its image's token grid; int64 [B, V, 3], or None if unknown."""
        return None if self.cell_at is None else self.on_device(self.cell_at)

    @cached_property
    def picture_at(self) -> Array:
        """Which picture (or frame) of its sample each visual slot is of; empty slots follow as one more: int64 [B, V], host."""
        frames = np.zeros_like(self.image_at) if self.cell_at is None else self.cell_at[..., 0]
        changes = [np.diff(each, axis=1, prepend=each[:, :1]) != 0 for each in (self.image_at, frames)]
        found: Array = np.cumsum(changes[0] | changes[1], axis=1)
        return found

    @cached_property
    def picture_index(self) -> Tensor:
        """`picture_at` as a tensor: int64 [B, V]."""
        return self.on_device(self.picture_at)

    @property
    def _order(self) -> Array:
        """The number of each visual slot, counted over the batch: [B, V]."""
        return (np.cumsum(self.slots < self.length) - 1).reshape(self.slots.shape)

    def on_device(self, values: Array) -> Tensor:
        """A host array as a tensor beside the model's inputs."""
        with torch.inference_mode(mode=False):  # it may outlive the pass, and meet a gradient later
            return torch.from_numpy(np.ascontiguousarray(values)).to(self.device, non_blocking=True)
