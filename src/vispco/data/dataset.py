"""The synthetic tasks by name, how answers are scored, and samples by split, task, seed and index.

The samples are the same on every machine, and none is in two splits.
"""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from random import Random
from typing import TypeVar, overload

from PIL.Image import Image

from vispco.core.errors import InvalidInputError, UnknownNameError
from vispco.data.reading import ChartTask, TableTask, WordTask
from vispco.data.sample import History, Question
from vispco.data.scene import Scene, draw
from vispco.data.several import ClipTask, PairTask, SeveralTask
from vispco.data.tasks import AttributeTask, ComparisonTask, CountingTask, ExistenceTask, PositionTask, Task

_ORDER = (AttributeTask, PositionTask, ExistenceTask, CountingTask, ComparisonTask, WordTask, ChartTask, TableTask)
TASKS: dict[str, Task] = {kind.name: kind() for kind in _ORDER}
SEVERAL: dict[str, SeveralTask] = {kind.name: kind() for kind in (PairTask, ClipTask)}
"""Tasks about several pictures and videos. They are not among 'all': the shipped models were trained on single pictures."""
TOLERANCE = 0.05  # relaxed accuracy of chart questions: a number may be 5 % off


def _task_named(name: str) -> Task | SeveralTask:
    if name in SEVERAL:
        return SEVERAL[name]
    if name not in TASKS:
        raise UnknownNameError("task", name, [*TASKS, *SEVERAL])
    return TASKS[name]


def select(names: str | Iterable[str]) -> list[str]:
    """Task names from "all" (the eight), "word,chart", a group such as "reading" or "several", or a list of any of these."""
    parts = names.split(",") if isinstance(names, str) else list(names)
    chosen: list[str] = []
    for part in (part.strip() for part in parts):
        group = [entry.name for entry in TASKS.values() if part in ("all", entry.group)]
        group += [entry.name for entry in SEVERAL.values() if part == entry.group]
        chosen += [name for name in (group or [_task_named(part).name]) if name not in chosen]
    return chosen


def metric(task: str, prediction: str, answer: str) -> float:
    """1.0 if `prediction` answers a question of `task` rightly, else 0.0.

    Case, spaces and a closing full stop do not matter; where the task's metric is relaxed, nor do 5 % of a number.
    """
    given, wanted = (" ".join(text.strip().lower().rstrip(".").split()) for text in (prediction, answer))
    if _task_named(task).metric == "relaxed":
        with suppress(ValueError):  # no numbers
            exact, near = float(wanted.rstrip("%")), float(given.rstrip("%"))
            return float(abs(near - exact) <= TOLERANCE * abs(exact) + 1e-9)
    return float(given == wanted)


_Item_co = TypeVar("_Item_co", covariant=True)
# A scene belongs to the split that its own fingerprint falls to, so the splits cannot share a picture.
SPLITS: dict[str, range] = {"test": range(1), "calibration": range(1, 2), "train": range(2, 16)}
PER_TASK = {"test": 128, "calibration": 512, "train": 4096}


class Lazy(Sequence[_Item_co]):
    """Says how many there are and makes the one at a place; slices and places from the end come with it."""

    @abstractmethod
    def make(self, place: int) -> _Item_co:
        """The item at a place from 0 to len - 1."""

    @overload
    def __getitem__(self, index: int) -> _Item_co: ...
    @overload
    def __getitem__(self, index: slice) -> list[_Item_co]: ...
    def __getitem__(self, index: int | slice) -> _Item_co | list[_Item_co]:
        if isinstance(index, slice):
            return [self.make(place) for place in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError(f"Item {index} of {len(self)}.")
        return self.make(index % len(self))


def random_for(*parts: object) -> Random:
    """A random stream of its own for every name."""
    digest = hashlib.sha256("/".join(map(str, parts)).encode()).digest()
    return Random(int.from_bytes(digest[:8], "little"))  # noqa: S311


def compose(task: str, split: str, rng: Random, difficulty: float = 1.0) -> tuple[Scene, list[Question]]:
    """A scene of a split that `task` can ask about, and its questions, the intended one first."""
    residues = SPLITS[split]
    while True:
        scene = TASKS[task].compose(rng, difficulty)
        if scene.fingerprint % 16 in residues:
            questions = TASKS[task].ask(scene, rng)
            if questions:
                return scene, questions


@dataclass(frozen=True, slots=True)
class DrawnSample:
    """A drawn picture with a question of its task: a `Sample` whose pictures are in memory.

    `id` is split/task/seed/index. `scene` is what the picture shows; None where there are several or they were replaced.
    frames_per_second: of a video, whose frames the pictures are; None for pictures.
    """

    id: str
    task: str
    images: tuple[Image, ...] = field(repr=False, compare=False)
    question: str
    answer: str
    history: History = ()
    scene: Scene | None = field(default=None, repr=False, compare=False)
    frames_per_second: float | None = None
    max_new_tokens = None

    @property
    def image(self) -> Image:
        """The first picture; samples of the eight tasks have one."""
        return self.images[0]

    @property
    def references(self) -> tuple[str, ...]:
        return (self.answer,)

    @property
    def num_images(self) -> int:
        return len(self.images)

    @property
    def area(self) -> int:
        return sum(image.width * image.height for image in self.images)

    def score(self, prediction: str) -> float:
        return metric(self.task, prediction, self.answer)

    def with_images(self, images: Sequence[Image]) -> DrawnSample:
        return replace(self, images=tuple(images), scene=None)

    def with_id(self, identity: str) -> DrawnSample:
        return replace(self, id=identity)


class Dataset(Lazy[DrawnSample]):
    """A lazy list: a sample is drawn when it is asked for."""

    def __init__(self, split: str, tasks: list[str], per_task: int, seed: int) -> None:
        self.split, self.tasks, self.per_task, self.seed = split, tasks, per_task, seed

    def __len__(self) -> int:
        return self.per_task * len(self.tasks)

    def __repr__(self) -> str:
        return f"Dataset({self.split!r}, {len(self.tasks)} tasks x {self.per_task}, seed={self.seed})"

    def make(self, place: int) -> DrawnSample:
        number, task = divmod(place, len(self.tasks))
        name = self.tasks[task]
        identity = f"{self.split}/{name}/{self.seed}/{number}"
        if name in SEVERAL:
            shown = SEVERAL[name].show(random_for(identity), SPLITS[self.split])
            pictures = tuple(draw(scene) for scene in shown.scenes)
            return DrawnSample(identity, name, pictures, *shown.question, frames_per_second=shown.frames_per_second)
        scene, questions = compose(name, self.split, random_for(identity))
        question, answer = questions[0]
        return DrawnSample(identity, name, (draw(scene),), question, answer, scene=scene)


def dataset(split: str, tasks: str | Iterable[str] = "all", limit: int | None = None, seed: int = 0) -> Dataset:
    """The samples of a split, tasks interleaved; `limit` is the number per task (128 in the test set)."""
    if split not in SPLITS:
        raise UnknownNameError("split", split, list(SPLITS))
    if limit is not None and limit < 1:
        raise InvalidInputError(f"limit is {limit}; it is the number of samples per task, 1 or more.")
    return Dataset(split, select(tasks), PER_TASK[split] if limit is None else limit, seed)
