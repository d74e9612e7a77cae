"""Tasks about several pictures and about short videos, of one's own choice: `--tasks pair,clip`, or `--tasks several`.

They ask what the attribute task asks. Which picture, or when in the video, is left to whoever answers: the thing that is
asked for is in one picture of two, or in some frames.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from random import Random
from typing import ClassVar

from vispco.data.sample import Question
from vispco.data.scene import Mark, Scene
from vispco.data.tasks import AttributeTask, count_of

FRAMES = 8
_FRAMES_PER_SECOND = 2.0
_MOVE = 0.03  # of the picture, from one frame to the next at most


@dataclass(frozen=True)
class _DrawnPictures:
    """The drawing of one question: a scene for each picture or frame, and the rate of a video."""

    scenes: tuple[Scene, ...]
    question: Question
    frames_per_second: float | None = None


class SeveralTask(ABC):
    """A kind of question about several pictures."""

    name: ClassVar[str]
    group: ClassVar[str] = "several"
    metric: ClassVar[str] = "exact"

    @abstractmethod
    def show(self, rng: Random, residues: range) -> _DrawnPictures:
        """Pictures and a question; every scene belongs to the split whose fingerprints end in `residues`, of 16."""


class PairTask(SeveralTask):
    """The colour of the only thing of its shape in two pictures, or the shape of the only one of its colour."""

    name = "pair"

    def show(self, rng: Random, residues: range) -> _DrawnPictures:
        asked, question = _asked(rng, residues)
        kind, value = asked.subject
        while True:
            other, _ = _asked(rng, residues)
            if not count_of(other, kind)[value]:
                return _DrawnPictures((asked, other) if rng.random() < 0.5 else (other, asked), question)


class ClipTask(SeveralTask):
    """The same in a video whose things move, where the one that is asked for is there for a while only."""

    name = "clip"

    def show(self, rng: Random, residues: range) -> _DrawnPictures:
        asked, question = _asked(rng, residues)
        kind, value = asked.subject
        seen = 2 * rng.randint(1, FRAMES // 4)  # frames, an even number: models join two at a time
        start = 2 * rng.randint(0, (FRAMES - seen) // 2)
        ways = [(rng.uniform(-_MOVE, _MOVE), rng.uniform(-_MOVE, _MOVE)) for _ in asked.marks]
        frames = []
        for number in range(FRAMES):
            after = number - FRAMES / 2
            marks = [
                _moved(mark, after * dx, after * dy) if mark.kind == "object" else mark
                for mark, (dx, dy) in zip(asked.marks, ways, strict=True)
                if start <= number < start + seen or mark.kind != "object" or getattr(mark, kind) != value
            ]
            frames.append(replace(asked, marks=tuple(marks)))
        return _DrawnPictures(tuple(frames), question, _FRAMES_PER_SECOND)


def _asked(rng: Random, residues: range) -> tuple[Scene, Question]:
    """A scene of the attribute task, and its question."""
    task = AttributeTask()
    while True:
        scene = task.compose(rng, 1.0)
        if scene.fingerprint % 16 in residues:
            return scene, task.ask(scene, rng)[0]


def _moved(mark: Mark, dx: float, dy: float) -> Mark:
    """A mark somewhere else, inside of the picture."""
    x0, y0, x1, y1 = mark.box
    dx = min(max(dx, -x0), 1.0 - x1)
    dy = min(max(dy, -y0), 1.0 - y1)
    return replace(mark, box=(x0 + dx, y0 + dy, x1 + dx, y1 + dy))
