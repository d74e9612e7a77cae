"""Models as a user names them: a shipped one, a folder or a hub id, checked before anything is loaded; and `ModelSpec`.

`ModelSpec` says which model, and how it is loaded, as data. Every command that takes a MODEL has its options.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

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
    text = str(source)
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
            f"There is no model {text!r}: it is neither a shipped one ({', '.join(shipped.NAMES)}) nor a folder. "
            f"A hub id has the form owner/name.{did_you_mean(text, shipped.NAMES)}"
        )


def read_config(
    model: str, *, revision: str | None = None, trust_remote_code: bool = False, also: Iterable[str] = ()
) -> Any:
    """The transformers config of a shipped model, a folder, a hub id or a file. also: further names to suggest."""
    names = ", ".join(shipped.NAMES)
    known = model in shipped.LOADABLE or Path(model).exists()
    if not known and (_looks_like_a_path(model) or model.endswith(".json")):
        raise LoadError(
            f"{model} does not exist. Give a shipped model ({names}), a folder, a hub id (owner/name), or a config.json."
            f"{did_you_mean(model, [*shipped.NAMES, *also])}"
        )
    from huggingface_hub.errors import StrictDataclassError  # noqa: PLC0415
    from transformers import AutoConfig  # noqa: PLC0415

    try:
        return AutoConfig.from_pretrained(_source_of(model), revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, StrictDataclassError) as error:
        first = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        if isinstance(error, StrictDataclassError):  # its first line names the field alone
            first = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise LoadError(
            f"No config could be read from {model}: {first.strip().rstrip('.')}. Give a shipped model ({names}), a folder, a "
            "hub id that this machine can reach, or a config.json."
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
    return [name for name in (*sorted(shipped.NAMES), *map(str, sorted(folders))) if name.startswith(incomplete)]


_DTYPES = ("auto", "float32", "bfloat16", "float16")
_KERNELS = ("sdpa", "eager", "flash_attention_2")
MODEL = "A shipped model, a folder, or a hub id."


@dataclass(frozen=True)
class ModelSpec:
    """A model and how it is loaded; the fields are options of the command line, and of `vispco.load`."""

    PANEL: ClassVar[str] = "Loading the model"
    OPTION_NAMES: ClassVar[Mapping[str, str]] = {"name": "model"}

    name: Annotated[str, typer.Argument(help=MODEL, autocompletion=model_names)]
    _: KW_ONLY
    dtype: Annotated[str, typer.Option(help="auto (the model's own), float32, bfloat16 or float16.")] = "auto"
    device: Annotated[
        str, typer.Option(help="auto (a GPU if there is one; each worker its own), cpu, cuda, cuda:1, mps.")
    ] = "auto"
    device_map: Annotated[
        str | None, typer.Option(help="Spread one model over devices: auto, balanced, ... (in place of --device).")
    ] = None
    attn_implementation: Annotated[str, typer.Option(help="sdpa, eager or flash_attention_2.")] = "sdpa"
    revision: Annotated[str | None, typer.Option(help="Branch, tag or commit of a hub id.")] = None
    trust_remote_code: Annotated[bool, typer.Option(help="Run code that comes with the model.")] = False

    def __post_init__(self) -> None:
        kernel = self.attn_implementation
        if kernel not in _KERNELS and not kernel.startswith("flash_attention") and "/" not in kernel:
            raise InvalidInputError(
                f"--attn-implementation {kernel} was given. Give {', '.join(_KERNELS)}.{did_you_mean(kernel, _KERNELS)}"
            )
        if self.dtype not in _DTYPES:
            raise InvalidInputError(
                f"dtype={self.dtype!r} was given. Give {', '.join(_DTYPES)}.{did_you_mean(self.dtype, _DTYPES)}"
            )

    @classmethod
    def of(cls, given: str | Path | Mapping[str, Any] | ModelSpec) -> ModelSpec:
        """From a name, from `asdict`, or a spec itself; keys that a newer version added are ignored."""
        if isinstance(given, ModelSpec):
            return given
        if isinstance(given, Mapping):
            return cls(**{name: value for name, value in given.items() if name in cls.__dataclass_fields__})
        return cls(str(given))

    @property
    def short_name(self) -> str:
        """The last part of its path or id, for the names of folders."""
        if self.name in (".", ".."):
            return Path(self.name).resolve().name
        return Path(self.name).name or "model"

    def check(self) -> None:
        """Refuse a name or a device that cannot be, before anything heavy is imported or read."""
        check_source(self.name)
        if self.device not in ("auto", "cpu") and not self.device_map:
            from vispco.models.loading import pick_device  # noqa: PLC0415

            pick_device(self.device)

    def load(self) -> tuple[Any, Any]:
        """(model, processor), on the device, ready for `generate()`."""
        from vispco.models.loading import load, pick_device  # noqa: PLC0415 - a spec is read and compared without torch

        device = None if self.device_map else pick_device(self.device)
        options = {key: value for key, value in asdict(self).items() if key not in ("name", "device")}
        model, processor = load(self.name, **options)
        return model if device is None else model.to(device), processor

    def num_layers(self) -> int:
        """Decoder layers, from the config alone."""
        config = read_config(self.name, revision=self.revision, trust_remote_code=self.trust_remote_code)
        return int(config.get_text_config().num_hidden_layers)
