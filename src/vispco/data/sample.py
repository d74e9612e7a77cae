"""`Sample`: the members that every sample has, wherever it comes from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from PIL.Image import Image

Question = tuple[str, str]  # question, answer
History = tuple[tuple[str, str], ...]  # earlier (question, answer) turns of the same conversation


class Sample(Protocol):
    """Pictures, a question about them, its answer, and how a prediction is scored.

    Everything that asks a model (evaluator, search, bench, report) takes any object with these members. Drawn samples,
    benchmark rows and conversation turns have them.
    """

    @property
    def id(self) -> str:
        """Unique among all samples of a run."""

    @property
    def task(self) -> str:
        """Scores are averaged by task."""

    @property
    def question(self) -> str:
        """The whole text that the model is asked, without image placeholders."""

    @property
    def answer(self) -> str:
        """The reference answer; empty where people gave several different ones."""

    @property
    def references(self) -> tuple[str, ...]:
        """All accepted answers."""

    @property
    def images(self) -> tuple[Image, ...]:
        """The pictures. They may be decoded at each access: keep the tuple if you need it twice."""

    @property
    def frames_per_second(self) -> float | None:
        """None where the pictures are pictures. A number where they are the frames of one video."""

    @property
    def num_images(self) -> int:
        """The number of pictures, without decoding them."""

    @property
    def area(self) -> int:
        """Pixels of all pictures, without decoding them. Batches are sorted by it."""

    @property
    def history(self) -> History:
        """Earlier turns of the conversation, oldest first."""

    @property
    def max_new_tokens(self) -> int | None:
        """The longest answer to generate; None for the longest reference answer of the run."""

    def score(self, prediction: str) -> float:
        """The score of a prediction, in [0, 1]."""

    def with_images(self, images: Sequence[Image]) -> Sample:
        """The same sample with other pictures, held in memory; `()` frees the old ones."""

    def with_id(self, identity: str) -> Sample:
        """The same sample under another id."""
