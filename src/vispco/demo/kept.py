"""What a demo has done so far, in its folder: a stage that is on the list is not done again."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vispco.errors import InvalidInputError
from vispco.planning.run_files import write_json

FILE = "demo.json"


class Kept:
    """The list of finished stages, with their seconds; refuses a folder that holds another demo."""

    def __init__(self, folder: Path, identity: dict[str, Any]) -> None:
        self.path, self.identity = folder / FILE, json.loads(json.dumps(identity))
        self.stages: dict[str, float] = {}
        if not self.path.exists():
            return
        try:
            found = json.loads(self.path.read_text(encoding="utf-8"))
            self.stages, other = dict(found["stages"]), found["identity"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInputError(
                f"{self.path} cannot be read: {error}. Remove it, or choose another --out."
            ) from error
        different = sorted(key for key in {*other, *self.identity} if other.get(key) != self.identity.get(key))
        if different:
            raise InvalidInputError(
                f"{folder} holds a demo with another {', '.join(different)}. Give the same options to go on with it, or "
                "another --out."
            )

    def __contains__(self, stage: str) -> bool:
        return stage in self.stages

    def add(self, stage: str, seconds: float) -> None:
        self.stages[stage] = seconds
        write_json(self.path, {"identity": self.identity, "stages": self.stages})
