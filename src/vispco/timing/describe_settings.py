"""`DescribeSettings`: the sample, the run and the GPU that a model is described for, as options of `vispco info`."""

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from vispco.core.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class DescribeSettings:
    """A sample, a run and a GPU."""

    image_size: Annotated[str, typer.Option(help="A picture's WIDTHxHEIGHT in pixels.")] = "640x480"
    visual: Annotated[int | None, typer.Option(min=1, help="Visual tokens of a sample, in place of a size.")] = None
    text: Annotated[int, typer.Option(min=1, help="Text tokens of a prompt.")] = 64
    answer: Annotated[int, typer.Option(min=1, help="Tokens of an answer.")] = 8
    dtype: Annotated[str | None, typer.Option(help="Of weights and cache (default: the config's).")] = None
    samples: Annotated[int, typer.Option(min=1, help="What a search learns from: the paper's 30,000.")] = 30_000
    items: Annotated[int, typer.Option(min=1, help="What an evaluation asks, of all benchmarks together.")] = 8_000
    batch_size: Annotated[int, typer.Option(min=1, help="Answers that are written side by side.")] = 16
    tflops: Annotated[float, typer.Option(min=0.001, help="Peak of a GPU; 148: an H20 in bfloat16.")] = 148.0
    utilisation: Annotated[float, typer.Option(min=0.001, max=1, help="Share of the peak in prefill.")] = 0.4
    bandwidth: Annotated[float, typer.Option(min=0.001, help="Its memory, in TB/s; 4.0: an H20.")] = 4.0
    gpus: Annotated[int, typer.Option(min=1, help="How many of them.")] = 1

    def check(self) -> None:
        """Refuse a size that cannot be read."""
        self.pixels  # noqa: B018 - read for its refusal

    @property
    def pixels(self) -> tuple[int, int]:
        """Width and height: 640x480."""
        parts = self.image_size.lower().replace("×", "x").split("x")
        if len(parts) != 2 or not all(part.strip().isdigit() and int(part) for part in parts):
            raise InvalidInputError(
                f"The image size {self.image_size!r} was given. Write WIDTHxHEIGHT, such as 640x480."
            )
        return int(parts[0]), int(parts[1])

    @property
    def machine(self) -> dict[str, Any]:
        """The GPU alone."""
        return {name: getattr(self, name) for name in ("tflops", "utilisation", "bandwidth", "gpus")}

    def hours(self, flops: float) -> float:
        """The time that prefills of this many FLOPs take."""
        return flops / (self.tflops * 1e12 * self.utilisation * self.gpus) / 3600
