"""LLaVA-Instruct: a JSON list of conversations beside a folder of images.

Each element is `{"id", "image", "conversations": [{"from": "human", "value": "<image> ..."}, {"from": "gpt", ...}]}`.
`image` may also be a list, for conversations about several. `video` in its place is a folder of frames or a list of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.data.files.conversation import ConversationError, brief, parse_conversation
from vispco.data.files.image import MAX_SIDE
from vispco.data.files.json_array import read_json_array
from vispco.data.files.record import Record
from vispco.data.files.records import Records
from vispco.data.files.shown import Place, find_shown
from vispco.data.files.skipped import Skipped

if TYPE_CHECKING:
    from collections.abc import Iterator


class LlavaInstruct(Records):
    """The conversations of one file. `images` is the folder that holds the pictures (default: beside the file)."""

    def __init__(
        self, file: str | Path, images: str | Path | None = None, *, task: str = "instruct", max_side: int = MAX_SIDE
    ) -> None:
        super().__init__(file, task=task, max_side=max_side)
        self.roots = image_roots(self.file, images)

    def _read(self) -> Iterator[Record | Skipped]:
        for entry in read_json_array(self.file):
            yield entry if isinstance(entry, Skipped) else self.record(*entry)

    def record(self, row: int, element: Any) -> Record | Skipped:
        """One element as a record, or why it is none. Ids repeat in LLaVA-Instruct, so a record's id has its row."""
        file = str(self.file)
        if not isinstance(element, dict):
            return Skipped("malformed item", file, row, f"it is {brief(element)}; a conversation is an object {{...}}")
        given = element.get("id")
        shown = find_shown(element, Place(self.roots, file, row, self.max_side))
        if isinstance(shown, Skipped):
            return shown
        try:
            turns = parse_conversation(
                element.get("conversations", element.get("messages")), shown.number, shown.placeholder
            )
        except ConversationError as error:
            return Skipped("malformed conversation", file, row, str(error), str(given or ""))
        rest = {key: value for key, value in element.items() if key not in ("conversations", "messages")}
        return Record(
            id=f"{self.file.stem}/{row}" if given is None else f"{given}#{row}",
            task=self.task,
            handles=shown.handles,
            frames_per_second=shown.frames_per_second,
            turns=turns,
            references=(turns[0].answer,),
            prompt=turns[0].instruction,
            meta=rest,
            file=file,
            row=row,
        )


def image_roots(file: Path, images: str | Path | None) -> list[Path]:
    """Where to look for pictures: the folder given, or the file's own and its `images`."""
    if images is None:
        return [file.parent, file.parent / "images"]
    folder = Path(images)
    if not folder.is_dir():
        raise InvalidInputError(f"The image folder {folder} of {file} does not exist. Give the folder with its images.")
    return [folder]
