"""A folder that `datasets.Dataset.save_to_disk` wrote. Columns are found by their kind and name, or given."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vispco.core.errors import InvalidInputError
from vispco.data.files.conversation import ConversationError, make_turn, parse_conversation, place_images
from vispco.data.files.json_files import as_answers, as_options
from vispco.data.files.limits import MAX_SIDE
from vispco.data.files.pictures import ImageHandle, find_image
from vispco.data.files.record import Record, Records, Skipped

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

# What a column may be called, the likeliest name first.
_NAMES: dict[str, tuple[str, ...]] = {
    "image": ("image", "images", "img", "picture", "image_path"),
    "question": ("question", "query", "instruction", "prompt", "problem"),
    "answer": ("answer", "answers", "label", "response", "output", "solution"),
    "conversations": ("conversations", "messages", "texts", "conversation"),
    "options": ("options", "choices"),
    "id": ("id", "question_id", "index", "idx", "uid"),
}


class HfFolder(Records):
    """The rows of a saved dataset. `columns` names them where they cannot be guessed: {"question": "ask"}."""

    def __init__(
        self,
        file: str | Path,
        images: str | Path | None = None,
        *,
        split: str | None = None,
        columns: Mapping[str, str] | None = None,
        task: str = "instruct",
        max_side: int = MAX_SIDE,
    ) -> None:
        super().__init__(file, task=task, max_side=max_side)
        self.roots = [Path(images)] if images is not None else [self.file, self.file / "images", self.file.parent]
        dataset = _load_split(self.file, split)
        self.columns = _find_columns(self.file, list(dataset.column_names), columns or {})
        self.rows = _undecoded(dataset)

    def _read(self) -> Iterator[Record | Skipped]:
        for number in range(len(self.rows)):
            try:
                row = {kind: self.rows[number][name] for kind, name in self.columns.items()}
            except Exception as error:  # noqa: BLE001  a damaged Arrow file fails in many ways
                yield self._skip("damaged row", number, f"it cannot be read ({error})")
                continue
            yield self._record(number, row)

    def _skip(self, reason: str, number: int, detail: str) -> Skipped:
        return Skipped(reason, str(self.file), number + 1, detail)

    def _record(self, number: int, row: dict[str, Any]) -> Record | Skipped:
        images = row["image"] if isinstance(row["image"], list) else [row["image"]]
        images = [image for image in images if image]
        if not images:
            return self._skip("no image", number, "it has no image; only items with one can be pruned")
        handles = []
        for place, image in enumerate(images):
            handle = self._handle(number, place, image)
            if isinstance(handle, Skipped):
                return handle
            handles.append(handle)
        references = as_answers(row.get("answer"))
        try:
            if row.get("conversations"):
                turns = parse_conversation(row["conversations"], len(handles))
                references = references or (turns[0].answer,)
            elif not str(row.get("question") or "").strip() or not references:
                return self._skip("no question or answer", number, "its question or its answer is empty")
            else:
                turns = place_images([make_turn(str(row["question"]), references[0])], len(handles))
        except ConversationError as error:
            return self._skip("malformed conversation", number, str(error))
        given = row.get("id")
        return Record(
            id=f"{self.file.name}/{number + 1}" if given is None else f"{given}#{number + 1}",
            task=self.task,
            handles=tuple(handles),
            turns=turns,
            references=references,
            options=as_options(row.get("options")),
            prompt=turns[0].instruction,
            file=str(self.file),
            row=number + 1,
        )

    def _handle(self, number: int, place: int, image: Any) -> ImageHandle | Skipped:
        """From the bytes that the dataset holds, or from the file that it names."""
        inside = isinstance(image, dict) and bool(image.get("bytes"))
        if inside:
            source: Path | Callable[[], bytes] = partial(self._bytes, number, place)
            name, head = f"image {place + 1}", bytes(image["bytes"][:16])
        else:
            given = str(image.get("path") if isinstance(image, dict) else image)
            found = find_image(given, self.roots)
            if found is None:
                detail = f"image {given[:200]!r} is neither in the dataset nor on disk"
                return self._skip("missing image", number, detail)
            (source, head), name = found, f"image {given}"
        handle = ImageHandle(source, name, str(self.file), number + 1, self.max_side)
        return handle.check(head) or handle

    def _bytes(self, number: int, place: int) -> bytes:
        image = self.rows[number][self.columns["image"]]
        return bytes((image[place] if isinstance(image, list) else image)["bytes"])


def _load_split(folder: Path, split: str | None) -> Any:
    try:
        from datasets import load_from_disk  # noqa: PLC0415  optional: only this reader needs it
    except ImportError:
        raise InvalidInputError(
            f"Reading {folder} needs the datasets package, which is not installed. Run: pip install datasets"
        ) from None
    try:
        found = load_from_disk(str(folder))
    except Exception as error:  # an unreadable folder raises whatever its Arrow or JSON files do
        raise InvalidInputError(
            f"{folder} is not a folder that save_to_disk of the datasets package wrote ({error})."
        ) from error
    if not isinstance(found, dict):
        return found
    name = split or ("train" if "train" in found else next(iter(found)) if len(found) == 1 else None)
    if name not in found:
        given = "no split was given" if split is None else f"it has no split {split!r}"
        raise InvalidInputError(f"{folder}: {given}. Its splits: {', '.join(found)}.")
    return found[name]


def _find_columns(folder: Path, have: list[str], given: Mapping[str, str]) -> dict[str, str]:
    """Which column is what. Those that are given must be there; an image and something to ask must be found."""
    shown = ", ".join(have)
    for kind, name in given.items():
        if kind not in _NAMES or name not in have:
            raise InvalidInputError(
                f"{folder}: columns has {kind} = {name!r}. The dataset's columns: {shown}; what they can be: "
                f"{', '.join(_NAMES)}."
            )
    found = {kind: next((name for name in names if name in have), "") for kind, names in _NAMES.items()}
    columns = {kind: name for kind, name in {**found, **given}.items() if name}
    if "image" not in columns:
        raise InvalidInputError(
            f"{folder} has no image column. Its columns: {shown}. Name it: columns={{'image': ...}}."
        )
    if "conversations" not in columns and not {"question", "answer"} <= set(columns):
        raise InvalidInputError(
            f"{folder} has neither conversations nor a question and an answer. Its columns: {shown}. Name them in columns."
        )
    return columns


def _undecoded(dataset: Any) -> Any:
    """The same rows with pictures as bytes: the datasets package would decode one whenever its row is read."""
    from datasets import Image, List  # noqa: PLC0415

    for name, feature in dataset.features.items():
        if isinstance(feature, Image):
            dataset = dataset.cast_column(name, Image(decode=False))
        elif isinstance(feature, List) and isinstance(feature.feature, Image):
            dataset = dataset.cast_column(name, List(Image(decode=False)))
    return dataset
