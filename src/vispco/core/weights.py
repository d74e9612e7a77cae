"""Checks of weight files before they are read, and reading them without progress bars."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from vispco.core.runs.files import DamagedFileError, digest_file, read_json_object

_CARD = "card.json"
_PICKLED = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
_RESTORE = "Restore it: copy or download it again, or write it again with save_pretrained."
_WEIGHT_BARS = ("Loading weights", "Writing model shards")  # the bars' names in transformers


def check_weights(folder: Path) -> None:
    """Raise if a *.safetensors file of the folder is truncated, is of another format, or differs from its card's checksum.

    Reads the files' heads, and all of them only where there is a card, which the small trained models have.
    """
    if not folder.is_dir():
        return  # a hub id
    for file in sorted(folder.iterdir()):
        if file.exists() and not file.is_file() and not file.is_dir():  # a pipe would never end
            raise DamagedFileError(f"{file} is not a regular file, so the model in {folder} is not opened. Remove it.")
    for index in sorted(folder.glob("*.safetensors.index.json")):  # what it names elsewhere would be read from there
        found = read_json_object(index, what="index of the weights", remedy=_RESTORE).get("weight_map")
        for name in sorted(set(map(str, found.values())) if isinstance(found, dict) else {""}):
            if name != Path(name).name or not (folder / name).is_file():
                raise DamagedFileError(f"{index} names weights in {name!r}, which is no file of {folder}. {_RESTORE}")
    for file in sorted(folder.glob("*.safetensors")):
        try:
            with safe_open(file, "pt"):
                pass
        except (SafetensorError, OSError) as error:
            raise DamagedFileError(f"{file} is damaged ({error}). {_RESTORE}") from error
    try:
        checksums = json.loads((folder / _CARD).read_text(encoding="utf-8")).get("sha256")
    except (OSError, ValueError, AttributeError, RecursionError):
        return  # without a card there is nothing to compare with
    for name, expected in checksums.items() if isinstance(checksums, dict) else ():
        file = folder / name
        if file.suffix == ".safetensors" and file.is_file() and digest_file(file) != expected:
            raise DamagedFileError(
                f"{file} is damaged: its checksum is not the one in {folder / _CARD}. {_RESTORE} "
                "If it was changed on purpose, delete that card."
            )


def pickle_problem(folder: Path) -> str | None:
    """A sentence on weights in a format that may run code, where a folder has no others; None elsewhere."""
    if not folder.is_dir() or any(folder.glob("*.safetensors")):
        return None
    others = sorted(file.name for file in folder.iterdir() if file.suffix in _PICKLED)
    if not others:
        return None
    return (
        f"{folder} has its weights in {others[0]}, a format that may run code when it is opened, so it is not opened. Save "
        "the model as safetensors: model.save_pretrained(FOLDER)."
    )


def json_problem(folder: Path) -> str | None:
    """The first *.json file of a folder that is no JSON, as a sentence; None where all can be read."""
    for file in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            json.loads(file.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            return f"{file} is damaged ({error}). {_RESTORE}"
    return None


@contextmanager
def hide_weight_bars() -> Iterator[None]:
    """Show no progress bar for weights that are read or written inside the block; a download keeps its own bar."""
    from transformers.utils import logging as notices  # noqa: PLC0415

    def bar(factory: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return factory(*args, **{**options, "disable": True} if options.get("desc") in _WEIGHT_BARS else options)

    previous = notices.set_tqdm_hook(bar)
    try:
        yield
    finally:
        notices.set_tqdm_hook(previous)
