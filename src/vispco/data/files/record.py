"""Records: what every reader yields for each row of a file; the rows that it skips, with the reason and the place; limits."""

from __future__ import annotations

import json
import os
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vispco.core.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from PIL.Image import Image

    from vispco.data.files.pictures import ImageHandle
    from vispco.data.sample import History

VARIABLE = "VISPCO_INPUT_LIMITS"
MAX_SIDE = 4096  # longer sides are scaled down on load; every model of the paper sees fewer pixels than 4096 × 4096


@dataclass(frozen=True)
class InputLimits:
    """Limits on the data that is read; an item that exceeds one is skipped and counted.

    They hold for this process and for the workers that it starts, which is why they are kept in the environment.

    allow_outside: read pictures that a data file names outside of the picture folder, by `../`, an absolute path or a
        symbolic link. max_image_bytes: of one encoded picture. max_text: characters of a question, an answer or an option.
    max_line: bytes of one line of a .jsonl or .tsv file.
    """

    allow_outside: bool = False
    max_image_bytes: int = 1 << 28
    max_text: int = 100_000
    max_line: int = 1 << 28

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not isinstance(value, int) or (each.name != "allow_outside" and value < 1):
                raise InvalidInputError(f"{each.name}={value!r} was given. Give a whole number, 1 or more.")

    def use(self) -> None:
        """Make these the limits of this process and of those that it starts."""
        os.environ[VARIABLE] = json.dumps(asdict(self))

    @classmethod
    def current(cls) -> InputLimits:
        """The limits in force."""
        return _parse_limits(os.environ.get(VARIABLE, "{}"))


@lru_cache(maxsize=4)
def _parse_limits(text: str) -> InputLimits:
    try:
        return InputLimits(**json.loads(text or "{}"))
    except (ValueError, TypeError) as error:
        raise InvalidInputError(f"The environment variable {VARIABLE} is not what vispco writes. Unset it.") from error


_LISTED = 1000  # beyond this, skipped items are still counted but no longer listed: a report stays small


@dataclass(frozen=True, slots=True)
class Skipped:
    """One item that was left out. Rows count from 1; the header of a table is not a row."""

    reason: str  # a few words, the same for every item of its kind: "missing image"
    file: str
    row: int | None
    detail: str  # what exactly was wrong with this one
    id: str = ""

    @property
    def sentence(self) -> str:
        place = self.file if self.row is None else f"{self.file}, row {self.row}"
        return f"{place}: {self.detail}"


class SkippedItemError(InvalidInputError):
    """An item turned out to be unusable when it was opened; `skipped` is its line for the report."""

    def __init__(self, skipped: Skipped) -> None:
        super().__init__(skipped.sentence)
        self.skipped = skipped

    def __reduce__(self) -> tuple[type[SkippedItemError], tuple[Skipped]]:
        return type(self), (self.skipped,)


@dataclass(slots=True)
class SkipReport:
    """Numbers of items that were used and skipped, by reason, with the first `_LISTED` of them in full."""

    used: int = 0
    reasons: Counter[str] = field(default_factory=Counter)
    listed: list[Skipped] = field(default_factory=list)

    @property
    def count(self) -> int:
        return self.reasons.total()

    def add(self, skipped: Skipped) -> None:
        self.reasons[skipped.reason] += 1
        if len(self.listed) < _LISTED:
            self.listed.append(skipped)

    def leave_out(self, skipped: Skipped) -> None:
        """Count an item that was counted as used before."""
        self.used -= 1
        self.add(skipped)

    def summary(self) -> str:
        """One line for a person: `3 of 120 items skipped: 2 missing image, 1 broken base64`."""
        if not self.count:
            return f"0 of {self.used} items skipped"
        parts = ", ".join(f"{number} {reason}" for reason, number in self.reasons.most_common())
        return f"{self.count} of {self.count + self.used} items skipped: {parts}"

    def to_dict(self) -> dict[str, Any]:
        return {
            "used": self.used,
            "skipped": self.count,
            "reasons": dict(self.reasons.most_common()),
            "listed": [asdict(entry) for entry in self.listed],
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["used"], Counter(data["reasons"]), [Skipped(**entry) for entry in data["listed"]])


@dataclass(frozen=True, slots=True)
class Turn:
    """An instruction and its answer. `image_at` holds the place of each `<image>` that stood in the instruction."""

    instruction: str  # without the placeholders
    answer: str
    image_at: tuple[int, ...] = ()  # character offsets into `instruction`


@dataclass(frozen=True, slots=True)
class Record:
    """One row as every reader yields it, for training (`turns`) and for evaluation (`prompt`, `references`, `options`).

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
    free_text: bool = False  # a conversation, whose answers no metric can judge

    @property
    def question(self) -> str:
        return self.turns[0].instruction if self.turns else ""

    def images(self) -> list[Image]:
        """The pictures, decoded now and kept by nobody but the caller."""
        return [handle.load() for handle in self.handles]

    def image(self) -> Image:
        """The only picture, or the first."""
        self._require_image()
        return self.handles[0].load()

    def _require_image(self) -> None:
        if not self.handles:
            raise InvalidInputError(f"{self.file}, row {self.row}: item {self.id!r} has no image.")

    def area(self) -> int:
        """Pixels of the largest picture, from its header."""
        return max((width * height for width, height in (handle.size() for handle in self.handles)), default=0)

    def samples(self) -> list[ConversationSample]:
        """One sample for each turn: all pictures, this turn's instruction and answer, and the turns before it."""
        self._require_image()
        names = [self.id] if len(self.turns) == 1 else [f"{self.id}/turn-{n}" for n in range(len(self.turns))]
        return [ConversationSample(name, self, number) for number, name in enumerate(names)]


@dataclass(frozen=True, slots=True)
class ConversationSample:
    """One turn of a record as a `Sample`. Its pictures are decoded at each access."""

    id: str
    record: Record = field(repr=False)
    turn: int
    replaced: tuple[Image, ...] | None = field(default=None, repr=False, compare=False)
    max_new_tokens = None

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


class Records(Iterable["Record"]):
    """`for record in records` reads the file once more; `records.report` says what that reading left out.

    A reader only has to yield a `Record` or a `Skipped` for each row. Pictures are checked by their first bytes when
    a row is read; one that breaks later, when it is decoded, is counted by `samples.decoded`.
    """

    def __init__(self, file: str | Path, *, task: str = "", max_side: int = MAX_SIDE) -> None:
        self.file = Path(file)
        self.task = task
        self.max_side = max_side
        self.report = SkipReport()
        if max_side < 1:
            raise InvalidInputError(
                f"max_side is {max_side}; it is the longest side of a picture in pixels, 1 or more."
            )
        if not self.file.exists():
            raise InvalidInputError(f"{self.file} does not exist. Give the path of the data file.")
        if not (self.file.is_file() or self.file.is_dir()):  # a pipe or a device might never end
            raise InvalidInputError(f"{self.file} is not a regular file. Give a file or a folder.")

    @abstractmethod
    def _read(self) -> Iterator[Record | Skipped]:
        """Every row of the file, in order."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self.file)!r})"

    def __iter__(self) -> Iterator[Record]:
        self.report = report = SkipReport()
        for entry in self._read():
            if isinstance(entry, Skipped):
                report.add(entry)
            elif (wrong := _too_long(entry)) is not None:
                report.add(wrong)
            else:
                report.used += 1
                yield entry
        if not report.used and not report.count:
            raise InvalidInputError(f"{self.file} holds no items. Give a file with at least one.")
        if not report.used:
            raise InvalidInputError(
                f"{self.file}: nothing in it can be used; {report.summary()}. The first: {report.listed[0].sentence}"
            )


def _too_long(record: Record) -> Skipped | None:
    """Why a record's words exceed the limit on texts, if they do."""
    limit = InputLimits.current().max_text
    texts = {
        "question": [turn.instruction for turn in record.turns],
        "answer": [turn.answer for turn in record.turns],
        "answers": record.references,
        "option": record.options.values(),
        "prompt": [record.prompt, record.hint],
    }
    for name, values in texts.items():
        longest = max(map(len, values), default=0)
        if longest > limit:
            detail = f"its {name} has {longest:,} characters, more than the {limit:,} of --max-text"
            return Skipped("text too long", record.file, record.row, detail, record.id)
    return None
