"""Options that several commands share: written once, as a dataclass, and spread over each command that takes it.

`ModelOptions` says how a model is loaded; every command that loads one has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import wraps
from inspect import Parameter, Signature, signature
from typing import Annotated, Any, ClassVar, get_type_hints

import typer

from vispco.core.errors import InvalidInputError, did_you_mean

KERNELS = ("sdpa", "eager", "flash_attention_2")
MODEL = "A shipped model, a folder, or a hub id."


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """A command whose parameters may be dataclasses of options; the command line sees their fields.

    Every field has a default, and is annotated as an option of a command is: `Annotated[str, typer.Option(...)]`. In the
    help, the options of a dataclass with a `PANEL` stand under that heading.
    """
    hints = get_type_hints(command, include_extras=True)
    groups: dict[str, type] = {}
    flat: list[Parameter] = []
    for parameter in signature(command).parameters.values():
        kind = hints[parameter.name]
        if is_dataclass(kind) and isinstance(kind, type):
            groups[parameter.name] = kind
            flat += _options(kind)
        else:
            flat.append(parameter.replace(annotation=kind))

    @wraps(command)
    def run(*args: Any, **given: Any) -> None:
        for name, kind in groups.items():
            given[name] = kind(**{each.name: given.pop(each.name) for each in fields(kind)})
        command(*args, **given)

    run.__signature__ = Signature(flat)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in flat}
    return run


def _options(kind: type) -> list[Parameter]:
    hints = get_type_hints(kind, include_extras=True)
    panel = getattr(kind, "PANEL", None)
    for hint in hints.values() if panel is not None else ():
        for option in getattr(hint, "__metadata__", ()):
            option.rich_help_panel = panel
    return [
        Parameter(
            each.name,
            Parameter.KEYWORD_ONLY,
            default=Parameter.empty if each.default is MISSING else each.default,
            annotation=hints[each.name],
        )
        for each in fields(kind)
    ]


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of `vispco.load`; `spec()` is their part of an `EvaluatorSpec`."""

    PANEL: ClassVar[str] = "Loading the model"

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
        given = self.attn_implementation
        if given not in KERNELS and not given.startswith("flash_attention") and "/" not in given:
            raise InvalidInputError(
                f"--attn-implementation {given} was given. Give {', '.join(KERNELS)}.{did_you_mean(given, KERNELS)}"
            )

    def load(self, model: str) -> tuple[Any, Any]:
        """(model, processor), on the device, ready for `generate()`."""
        from vispco.evaluation.spec import EvaluatorSpec  # noqa: PLC0415

        return EvaluatorSpec(model=model, **self.spec()).load()

    def num_layers(self, model: str) -> int:
        """Decoder layers, from the config alone."""
        from vispco.cli.info import read_config  # noqa: PLC0415

        config = read_config(model, revision=self.revision, trust_remote_code=self.trust_remote_code)
        return int(config.get_text_config().num_hidden_layers)

    def spec(self) -> dict[str, Any]:
        """Fields of an `EvaluatorSpec`."""
        return {
            "dtype": self.dtype,
            "device": self.device,
            "device_map": self.device_map,
            "attention": self.attn_implementation,
            "revision": self.revision,
            "trust_remote_code": self.trust_remote_code,
        }
