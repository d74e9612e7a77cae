"""The right reader for a path: by what kind of file or folder it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from vispco.errors import InvalidInputError
from vispco.sources.hf_folder import HfFolder
from vispco.sources.image import MAX_SIDE
from vispco.sources.jsonl import Jsonl
from vispco.sources.llava_instruct import LlavaInstruct
from vispco.sources.tsv import Tsv

if TYPE_CHECKING:
    from vispco.sources.records import Records

READERS: dict[str, type[LlavaInstruct | Tsv]] = {
    ".json": LlavaInstruct,
    ".jsonl": Jsonl,
    ".ndjson": Jsonl,
    ".tsv": Tsv,
}
SAVED_DATASET = ("dataset_dict.json", "dataset_info.json", "state.json")


def open_data(
    path: str | Path, images: str | Path | None = None, *, task: str = "", max_side: int = MAX_SIDE
) -> Records:
    """Reads a LLaVA-Instruct .json, a .jsonl, a VLMEvalKit .tsv, a saved `datasets` folder, or a folder with one of them."""
    found = Path(path)
    if not found.exists():
        raise InvalidInputError(f"{found} does not exist. Give a .json, .jsonl or .tsv file, or a folder.")
    if found.is_dir():
        if any((found / name).is_file() for name in SAVED_DATASET):
            return HfFolder(found, images, task=task or "instruct", max_side=max_side)
        found = only_file(found)
    reader = READERS.get(found.suffix.lower())
    if reader is None:
        raise InvalidInputError(
            f"{found} is of no known kind. Known: {', '.join(READERS)}, or a saved datasets folder."
        )
    return reader(found, images, task=task or ("" if reader is Tsv else "instruct"), max_side=max_side)


def only_file(folder: Path) -> Path:
    files = sorted(path for path in folder.iterdir() if path.suffix.lower() in READERS and path.is_file())
    if len(files) == 1:
        return files[0]
    listed = ", ".join(path.name for path in files[:10]) or "none"
    raise InvalidInputError(
        f"{folder} must hold one data file ({', '.join(READERS)}) or be a saved datasets folder; it holds {listed}. "
        "Give the file itself."
    )
