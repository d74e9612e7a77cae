"""Names of models as a user gives them: a shipped model, a folder or a hub id; checked before anything is loaded."""

from __future__ import annotations

from pathlib import Path

from vispco.core.errors import InvalidInputError, VispcoError, did_you_mean
from vispco.models import shipped

HUB = "hub:"


class LoadError(VispcoError, OSError):
    """A model could not be loaded; the message says from where, and what to do."""


def looks_like_a_path(text: str) -> bool:
    """Whether this is no hub id, which has the form owner/name, with no folder of the owner's name here."""
    owner = text.partition("/")[0]
    return text.startswith((".", "/", "~")) or text.count("/") != 1 or Path(owner).exists()


def check_source(source: str | Path) -> None:
    """A path that is not there would be taken for a hub id, and end in a long message about the network."""
    text, names = str(source), shipped.names()
    if not text.strip():
        raise InvalidInputError("The model's name is empty. Give a shipped model, a folder or a hub id.")
    folder = Path(text).expanduser()
    if text in names or text.startswith(HUB):
        return
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise LoadError(f"The folder {text} has no config.json, so it is not a model made by save_pretrained.")
    elif folder.is_file():
        raise LoadError(f"{text} is a file; a model is a folder made by save_pretrained, or a hub id.")
    elif looks_like_a_path(text):
        raise LoadError(
            f"There is no model {text!r}: it is neither a shipped one ({', '.join(names)}) nor a folder. "
            f"A hub id has the form owner/name.{did_you_mean(text, names)}"
        )
