"""Saved `datasets` folders and Parquet files. Columns are found by their name."""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.data.files.conversation import FIELDS, Place, Shown, read_item
from vispco.data.files.pictures import ImageHandle, find_image
from vispco.data.files.record import MAX_SIDE, Record, Records, Skipped


class HfFolder(Records):
    """The rows of a folder that `save_to_disk` wrote, of a .parquet file, or of a folder of them."""

    def __init__(
        self, file: str | Path, images: str | Path | None = None, *, task: str = "instruct", max_side: int = MAX_SIDE
    ) -> None:
        super().__init__(file, task=task, max_side=max_side)
        folder = self.file if self.file.is_dir() else self.file.parent
        self.roots = [Path(images)] if images is not None else [folder, folder / "images", folder.parent]
        parquet = parquet_files(self.file)
        dataset = _ParquetRows(self.file, parquet) if parquet else _load_split(self.file)
        self.columns = _find_columns(self.file, list(dataset.column_names))
        self.rows = dataset if parquet else _undecoded(dataset)

    def _read(self) -> Iterator[Record | Skipped]:
        for number in range(len(self.rows)):
            place = Place(self.roots, str(self.file), number + 1, self.max_side)
            try:
                row = {kind: self.rows[number][name] for kind, name in self.columns.items()}
            except Exception as error:  # noqa: BLE001  a damaged Arrow file fails in many ways
                yield place.skip("damaged row", f"it cannot be read ({error})")
                continue
            given = row.pop("image")
            images = [image for image in (given if isinstance(given, list) else [given]) if image]
            handles = [self._handle(place, each, image) for each, image in enumerate(images)]
            wrong = next((handle for handle in handles if isinstance(handle, Skipped)), None)
            if not handles:
                wrong = place.skip("no image", "it has no image; only items with one can be pruned")
            if wrong is not None:
                yield wrong
                continue
            row = {kind: value for kind, value in row.items() if value is not None}
            shown = Shown(tuple(handle for handle in handles if isinstance(handle, ImageHandle)))
            yield read_item(row, shown, place, source=self.file.name, task=self.task)

    def _handle(self, place: Place, number: int, image: Any) -> ImageHandle | Skipped:
        """From the bytes that the dataset holds, or from the file that it names."""
        if isinstance(image, dict) and image.get("bytes"):
            source: Path | Callable[[], bytes] = partial(self._bytes, place.row - 1, number)
            name, head = f"image {number + 1}", bytes(image["bytes"][:16])
        else:
            given = str(image.get("path") if isinstance(image, dict) else image)
            found = find_image(given, self.roots)
            if found is None:
                return place.skip("missing image", f"image {given[:200]!r} is neither in the dataset nor on disk")
            (source, head), name = found, f"image {given}"
        handle = ImageHandle(source, name, place.file, place.row, self.max_side)
        return handle.check(head) or handle

    def _bytes(self, row: int, number: int) -> bytes:
        image = self.rows[row][self.columns["image"]]
        return bytes((image[number] if isinstance(image, list) else image)["bytes"])


def parquet_files(path: Path) -> list[Path]:
    """The Parquet files at a path: the file itself, or those of a folder or of its `data`; none for anything else."""
    if path.is_file():
        return [path] if path.suffix.lower() == ".parquet" else []
    return sorted(path.glob("*.parquet")) or sorted(path.glob("data/*.parquet"))


class _ParquetRows:
    """Rows of Parquet files by number. One row group is in memory."""

    def __init__(self, path: Path, files: list[Path]) -> None:
        try:
            from pyarrow import parquet  # noqa: PLC0415  optional: only this reader needs it
        except ImportError:
            raise InvalidInputError(
                f"Reading {path} needs pyarrow, which is not installed. Run: pip install pyarrow"
            ) from None
        try:
            opened = [parquet.ParquetFile(file, memory_map=True) for file in files]
        except Exception as error:  # a damaged file raises whatever its parts do
            raise InvalidInputError(f"{path} is not a Parquet file, or is damaged ({error}).") from error
        self.column_names = list(opened[0].schema_arrow.names)
        self._groups = [(file, group) for file in opened for group in range(file.num_row_groups)]
        self._starts = [0]
        for file, group in self._groups:
            self._starts.append(self._starts[-1] + file.metadata.row_group(group).num_rows)
        self._group = lru_cache(maxsize=1)(self._read_group)

    def __len__(self) -> int:
        return self._starts[-1]

    def __getitem__(self, number: int) -> dict[str, Any]:
        group = bisect_right(self._starts, number) - 1
        row: dict[str, Any] = self._group(group).slice(number - self._starts[group], 1).to_pylist()[0]
        return row

    def _read_group(self, number: int) -> Any:
        file, group = self._groups[number]
        return file.read_row_group(group)


def _load_split(folder: Path) -> Any:
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
    if "train" not in found and len(found) > 1:
        raise InvalidInputError(
            f"{folder} has several splits: {', '.join(found)}. Give the folder of one: {folder / next(iter(found))}."
        )
    return found["train"] if "train" in found else next(iter(found.values()))


def _find_columns(folder: Path, have: list[str]) -> dict[str, str]:
    """Columns by kind; an image and something to ask must be found."""
    shown = ", ".join(have)
    columns = {
        kind: next(name for name in names if name in have) for kind, names in FIELDS.items() if {*names} & {*have}
    }
    if "image" not in columns:
        raise InvalidInputError(f"{folder} has no image column. Its columns: {shown}. Rename one to image.")
    if "conversations" not in columns and not {"question", "answer"} <= set(columns):
        raise InvalidInputError(
            f"{folder} has neither conversations nor a question and an answer. Its columns: {shown}. Rename them to question "
            "and answer."
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
