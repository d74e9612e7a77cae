"""Names of models as a user gives them: a shipped model, a folder or a hub id; checked before anything is loaded."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from vispco.core.errors import InvalidInputError, VispcoError, did_you_mean
from vispco.models import shipped

HUB = "hub:"


class LoadError(VispcoError, OSError):
    """A model could not be loaded; the message says from where, and what to do."""


def _looks_like_a_path(text: str) -> bool:
    """Whether this is no hub id, which has the form owner/name, with no folder of the owner's name here."""
    owner = text.partition("/")[0]
    return text.startswith((".", "/", "~")) or text.count("/") != 1 or Path(owner).exists()


def check_source(source: str | Path) -> None:
    """A path that is not there would be taken for a hub id, and end in a long message about the network."""
    text, names = str(source), shipped.names()
    if not text.strip():
        raise InvalidInputError("The model's name is empty. Give a shipped model, a folder or a hub id.")
    folder = Path(text).expanduser()
    if text in shipped.LOADABLE or text.startswith(HUB):
        return
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise LoadError(f"The folder {text} has no config.json, so it is not a model made by save_pretrained.")
    elif folder.is_file():
        raise LoadError(f"{text} is a file; a model is a folder made by save_pretrained, or a hub id.")
    elif _looks_like_a_path(text):
        raise LoadError(
            f"There is no model {text!r}: it is neither a shipped one ({', '.join(names)}) nor a folder. "
            f"A hub id has the form owner/name.{did_you_mean(text, names)}"
        )


def _check_config_source(model: str, also: Iterable[str] = ()) -> None:
    """Refuse a path that is not there, with the nearest name. also: further names to suggest."""
    names = shipped.names()
    if (
        model not in shipped.LOADABLE
        and not Path(model).exists()
        and (_looks_like_a_path(model) or model.endswith(".json"))
    ):
        raise LoadError(
            f"{model} does not exist. Give a shipped model ({', '.join(names)}), a folder, a hub id (owner/name), or a "
            f"config.json.{did_you_mean(model, [*names, *also])}"
        )


def read_config(
    model: str, *, revision: str | None = None, trust_remote_code: bool = False, also: Iterable[str] = ()
) -> Any:
    """The transformers config of a shipped model, a folder, a hub id or a file. also: further names to suggest."""
    names = shipped.names()
    _check_config_source(model, also)
    from huggingface_hub.errors import StrictDataclassError  # noqa: PLC0415
    from transformers import AutoConfig  # noqa: PLC0415

    try:
        return AutoConfig.from_pretrained(_source_of(model), revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StrictDataclassError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if isinstance(error, StrictDataclassError):  # its first line names the field alone
            first = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise LoadError(
            f"No config could be read from {model}: {first.strip().rstrip('.')}. Give a shipped model ({', '.join(names)}), a "
            "folder, a hub id that this machine can reach, or a config.json."
        ) from error


def read_preprocessor(model: str) -> dict[str, Any]:
    """The settings of the image processor that lies beside a config; nothing where none does."""
    place = Path(_source_of(model))
    file = (place if place.is_dir() else place.parent) / "preprocessor_config.json"
    if not file.is_file() or (place.is_file() and place.name != "config.json"):
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InvalidInputError(f"{file} is not JSON: {error}.") from error
    return found if isinstance(found, dict) else {}


def _source_of(model: str) -> str | Path:
    """Where a model's files are: the folder of a shipped one, else what was given."""
    return shipped.path(model) if model in shipped.LOADABLE else model


def model_names(incomplete: str) -> list[str]:
    """Shipped models, and folders of models from here, that begin like this: what a shell offers after TAB."""
    start = Path(incomplete)
    parent = start if incomplete.endswith("/") else start.parent
    folders = [path for path in parent.glob("*") if (path / "config.json").is_file()] if parent.is_dir() else []
    return [name for name in (*sorted(shipped.names()), *map(str, sorted(folders))) if name.startswith(incomplete)]
