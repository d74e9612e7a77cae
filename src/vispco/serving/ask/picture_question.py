"""A person's own picture and question, as a sample."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.data.files.pictures import BrokenImageError, load_image
from vispco.data.scene import COLORS, SHAPES

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.data.sample import History


_ASKED = (  # one question of each form that the eight tasks have
    *("what color is the ring?", "what shape is red?", "where is the red ring?", "is there a red ring?"),
    *("how many rings are there?", "how many things are red?", "what color is the biggest ring?"),
    *("what color is the smallest ring?", "what word is on the red sign?", "what is the value of the red bar?"),
    "what number is in row a column p?",
)
_EIGHT = (
    "{model} was trained on eight synthetic tasks with drawn pictures, and on nothing else; this question is none of theirs, so "
    "its answer means little. Ask as they do ('how many circles are there?', 'what color is the ring?'; docs/zoo.md), or give "
    "a real model: vispco ask Qwen/Qwen2.5-VL-3B-Instruct PICTURE QUESTION."
)


_NAMED = re.compile(rf"\b({'|'.join([*COLORS, *SHAPES, '[a-z]'])})(es|s)?\b")  # colours, shapes and letters


def outside_tasks(model: str, question: str) -> str | None:
    """The sentence for a question that a shipped model never learned to answer; None where it did, and for other models."""
    from vispco.models import shipped  # noqa: PLC0415 - only where a question is asked

    form, *known = (_NAMED.sub("_", " ".join(text.lower().split()).rstrip("?. ")) for text in (question, *_ASKED))
    return _EIGHT.format(model=model) if model in shipped.NAMES and form not in known else None


@dataclass(frozen=True, eq=False)
class PictureQuestion:
    """A `Sample` without a reference answer: nobody knows what is right, so it cannot be scored."""

    images: tuple[Image.Image, ...]
    question: str
    id: str = "question"
    task: str = "question"
    history: History = ()
    max_new_tokens: int | None = None
    frames_per_second: float | None = None

    answer = ""
    references: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.question.strip():
            raise InvalidInputError("The question is empty. Write one, such as 'What is on the table?'.")

    @classmethod
    def read(cls, picture: str | Path, question: str) -> Self:
        """From a picture's file."""
        path = Path(picture).expanduser()
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "does not exist"
            raise InvalidInputError(f"The picture {picture} {what}. Give a file: PNG, JPEG, WebP, GIF, BMP or TIFF.")
        try:
            image = load_image(path)
        except BrokenImageError as error:
            raise InvalidInputError(f"The picture {picture} cannot be read: {error}.") from error
        return cls((image,), question)

    @property
    def num_images(self) -> int:
        return len(self.images)

    @property
    def area(self) -> int:
        return sum(image.width * image.height for image in self.images)

    def score(self, prediction: str) -> float:  # noqa: ARG002
        raise InvalidInputError("A question of one's own has no reference answer, so no score.")

    def with_images(self, images: Sequence[Image.Image]) -> Self:
        return replace(self, images=tuple(images))

    def with_id(self, identity: str) -> Self:
        return replace(self, id=identity)
