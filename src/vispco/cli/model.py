"""How a command loads its model: the options that every one of them has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

MODEL = "A shipped model, a folder, or a hub id."


@dataclass(frozen=True, kw_only=True)
class ModelOptions:
    """Options of `vispco.load`; `spec()` is their part of an `EvaluatorSpec`."""

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
