"""Option types that commands share."""

from typing import Annotated

import typer

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Overwrite = Annotated[
    bool,
    typer.Option("--overwrite", help="Replace an earlier run in the folder: the files that it wrote, and no others."),
]
Seed = Annotated[int, typer.Option(min=0, help="Of everything that is drawn.")]
BatchSize = Annotated[int, typer.Option(min=1)]
Rounds = Annotated[int, typer.Option(min=1, help="Timed rounds, after one that warms up.")]
Host = Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 is every network of this machine.")]
Split = Annotated[str, typer.Option(help="Of synthetic tasks: test, calibration or train.")]
