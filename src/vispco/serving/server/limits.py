"""`ServerLimits`: what one client may ask of a server, and all of them together; each is an option of `vispco serve`."""

from dataclasses import dataclass, fields
from typing import Annotated, ClassVar

import typer

from vispco.core.errors import InvalidInputError


@dataclass(frozen=True, kw_only=True)
class ServerLimits:
    """Limits of one request, of connections, and of time; checked after the key and before anything is decoded."""

    PANEL: ClassVar[str] = "Limits"

    max_body: Annotated[int, typer.Option(min=1, help="The largest request, in MB; also what is fetched for one.")] = 20
    max_images: Annotated[int, typer.Option(min=1, help="The most pictures of a request.")] = 16
    max_megapixels: Annotated[float, typer.Option(help="The most pixels of a request's pictures, in millions.")] = 64.0
    max_prompt_tokens: Annotated[
        int, typer.Option(min=1, help="The longest prompt, visual tokens included; never beyond the model's context.")
    ] = 16384
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The longest answer that a request may ask for.")] = 4096
    max_waiting: Annotated[int, typer.Option(min=1, help="Requests at once; more are asked to come back later.")] = 64
    max_connections: Annotated[
        int, typer.Option(min=1, help="Connections at once; idle ones are closed first, then new ones get 503.")
    ] = 256
    header_seconds: Annotated[float, typer.Option(help="Seconds that a connection has for a request's headers.")] = 10.0
    body_seconds: Annotated[
        float, typer.Option(help="Seconds that a body has to arrive, and that an answer may lie unread.")
    ] = 60.0
    fetch_seconds: Annotated[float, typer.Option(help="Seconds that a request's remote pictures have together.")] = 20.0
    grace_seconds: Annotated[
        float, typer.Option(help="Seconds that answers have to end when the server is stopped.")
    ] = 10.0

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not value > 0:
                option = f"--{each.name.replace('_', '-')}"
                raise InvalidInputError(f"{option} {value} was given. Give a number above 0.")

    @property
    def body_bytes(self) -> int:
        return self.max_body * 2**20

    @property
    def pixels(self) -> int:
        return int(self.max_megapixels * 1e6)
