"""`ModelSpec`: which model, and how it is loaded, as data. Every command that takes a MODEL has its options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, asdict, dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import typer

from vispco.core.errors import InvalidInputError, did_you_mean
from vispco.models.model_source import check_source, model_names, read_config

DTYPES = ("auto", "float32", "bfloat16", "float16")
KERNELS = ("sdpa", "eager", "flash_attention_2")
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
        if kernel not in KERNELS and not kernel.startswith("flash_attention") and "/" not in kernel:
            raise InvalidInputError(
                f"--attn-implementation {kernel} was given. Give {', '.join(KERNELS)}.{did_you_mean(kernel, KERNELS)}"
            )
        if self.dtype not in DTYPES:
            raise InvalidInputError(
                f"dtype={self.dtype!r} was given. Give {', '.join(DTYPES)}.{did_you_mean(self.dtype, DTYPES)}"
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
        if self.device not in ("auto", "cpu"):
            self._device()

    def load(self) -> tuple[Any, Any]:
        """(model, processor), on the device, ready for `generate()`."""
        from vispco.models.loading import load  # noqa: PLC0415 - a spec is read and compared without torch

        device = self._device()
        options = {key: value for key, value in asdict(self).items() if key not in ("name", "device")}
        model, processor = load(self.name, **options)
        return model if device is None else model.to(device), processor

    def num_layers(self) -> int:
        """Decoder layers, from the config alone."""
        config = read_config(self.name, revision=self.revision, trust_remote_code=self.trust_remote_code)
        return int(config.get_text_config().num_hidden_layers)

    def _device(self) -> str | None:
        """Where the model goes; None where a device map says it. A device that cannot be is refused."""
        from vispco.models.loading import pick_device  # noqa: PLC0415

        return None if self.device_map else pick_device(self.device)
