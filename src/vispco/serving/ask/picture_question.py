"""A person's own picture and question, as a sample."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from PIL import Image

from vispco.core.errors import InvalidInputError
from vispco.data.files.pictures import BrokenImageError, load_image

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vispco.data.sample import History


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
