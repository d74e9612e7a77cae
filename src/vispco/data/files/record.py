"""One row of somebody's data: pictures that are not loaded yet, and the words that go with them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.Image import Image

    from vispco.data.files.image_handle import ImageHandle
    from vispco.data.sample import History


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
    frames_per_second: float | None = None  # of a video, whose frames the pictures are; None for pictures

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

    def samples(self) -> list[ConversationSample]:
        """One sample for each turn: all pictures, this turn's instruction and answer, and the turns before it."""
        if not self.handles:
            raise InvalidInputError(f"{self.file}, row {self.row}: item {self.id!r} has no image.")
        names = [self.id] if len(self.turns) == 1 else [f"{self.id}/turn-{n}" for n in range(len(self.turns))]
        return [ConversationSample(name, self, number) for number, name in enumerate(names)]


@dataclass(frozen=True, slots=True)
class ConversationSample:
    """One turn of a record as a `Sample`. Its pictures are decoded at each access."""

    id: str
    record: Record = field(repr=False)
    turn: int
    replaced: tuple[Image, ...] | None = field(default=None, repr=False, compare=False)

    @property
    def task(self) -> str:
        return self.record.task

    @property
    def question(self) -> str:
        return self.record.turns[self.turn].instruction

    @property
    def answer(self) -> str:
        return self.record.turns[self.turn].answer

    @property
    def references(self) -> tuple[str, ...]:
        return (self.answer,)

    @property
    def images(self) -> tuple[Image, ...]:
        return tuple(self.record.images()) if self.replaced is None else self.replaced

    @property
    def image(self) -> Image:
        """The first picture."""
        return self.record.image() if self.replaced is None else self.replaced[0]

    @property
    def frames_per_second(self) -> float | None:
        return self.record.frames_per_second

    @property
    def num_images(self) -> int:
        return len(self.record.handles if self.replaced is None else self.replaced)

    @property
    def area(self) -> int:
        sizes = [handle.size() for handle in self.record.handles]
        if self.replaced is not None:
            sizes = [image.size for image in self.replaced]
        return sum(width * height for width, height in sizes)

    @property
    def history(self) -> History:
        return tuple((before.instruction, before.answer) for before in self.record.turns[: self.turn])

    @property
    def max_new_tokens(self) -> None:
        return None

    def score(self, prediction: str) -> float:
        """Free text has no metric; `TaskEvaluator(score=...)` takes one."""
        raise InvalidInputError(
            f"Sample {self.id!r} of task {self.task!r} is a turn of a conversation, which has no metric "
            f"(asked to score {len(prediction)} characters). Give TaskEvaluator a score function, or a benchmark's file."
        )

    def with_images(self, images: Sequence[Image]) -> ConversationSample:
        return replace(self, replaced=tuple(images))

    def with_id(self, identity: str) -> ConversationSample:
        return replace(self, id=identity)
