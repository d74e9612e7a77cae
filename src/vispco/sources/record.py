"""One row of somebody's data: pictures that are not loaded yet, and the words that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vispco.data.sample import Sample
from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from PIL.Image import Image

    from vispco.sources.handle import ImageHandle


@dataclass(frozen=True, slots=True)
class Turn:
    """An instruction and its answer. `image_at` holds the place of each `<image>` that stood in the instruction."""

    instruction: str  # without the placeholders
    answer: str
    image_at: tuple[int, ...] = ()  # character offsets into `instruction`


@dataclass(frozen=True, slots=True)
class Record:
    """What every reader yields, for training (`turns`) and for evaluation (`prompt`, `references`, `options`).

    An evaluation row has one turn; its `references` are all accepted answers and its `options` the choices by letter.
    """

    id: str
    task: str
    handles: tuple[ImageHandle, ...] = field(compare=False)
    turns: tuple[Turn, ...]
    references: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    prompt: str = ""  # what the model is asked; the bare question until a benchmark puts its own words around it
    meta: Mapping[str, Any] = field(default_factory=dict, compare=False)
    file: str = field(default="", compare=False)
    row: int | None = field(default=None, compare=False)

    @property
    def question(self) -> str:
        return self.turns[0].instruction if self.turns else ""

    def images(self) -> list[Image]:
        """The pictures, decoded now and kept by nobody but the caller."""
        return [handle.load() for handle in self.handles]

    def image(self) -> Image:
        """The only picture, or the first."""
        if not self.handles:
            raise InvalidInputError(f"{self.file}, row {self.row}: item {self.id!r} has no image.")
        return self.handles[0].load()

    def area(self) -> int:
        """Pixels of the largest picture, from its header."""
        return max((width * height for width, height in (handle.size() for handle in self.handles)), default=0)

    def with_prompt(self, prompt: str) -> Record:
        return replace(self, prompt=prompt)

    def samples(self) -> Iterator[Sample]:
        """One `Sample` for each turn: the picture, this turn's instruction and its answer.

        `meta["history"]` holds the turns before it, and `meta["images"]` all pictures, of which `image` is the first.
        """
        pictures = tuple(self.images())
        if not pictures:
            raise InvalidInputError(f"{self.file}, row {self.row}: item {self.id!r} has no image.")
        for number, turn in enumerate(self.turns):
            history = tuple((before.instruction, before.answer) for before in self.turns[:number])
            identity = self.id if len(self.turns) == 1 else f"{self.id}/turn-{number}"
            meta = {**self.meta, "history": history, "image_at": turn.image_at, "images": pictures}
            yield Sample(identity, self.task, pictures[0], turn.instruction, turn.answer, meta)
