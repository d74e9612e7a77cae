"""The list of finished stages in a demo's folder: those on it are not run again."""

import json
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.core.runs.files import DamagedFileError, read_json_object, write_json
from vispco.core.runs.run_folder import RunFolder

FILE = "demo.json"


class FinishedStages:
    """The list of finished stages, with their seconds; refuses a folder that holds another demo."""

    def __init__(self, folder: RunFolder, identity: dict[str, Any]) -> None:
        self.folder, self.path, self.identity = folder, folder.path / FILE, json.loads(json.dumps(identity))
        self.stages: dict[str, float] = {}
        if not self.path.exists():
            return
        remedy = "Remove it, or choose another --out."
        found = read_json_object(self.path, what="list of finished stages", remedy=remedy)
        stages, other = found.get("stages"), found.get("identity")
        if not isinstance(stages, dict) or not isinstance(other, dict):
            raise DamagedFileError(
                f"The list of finished stages {self.path} is damaged: its parts are missing. {remedy}"
            )
        self.stages = stages
        different = sorted(key for key in {*other, *self.identity} if other.get(key) != self.identity.get(key))
        if different:
            raise InvalidInputError(
                f"{folder.path} holds a demo with another {', '.join(different)}. Give the same options to continue it, or "
                "another --out."
            )

    def __contains__(self, stage: str) -> bool:
        return stage in self.stages

    def add(self, stage: str, seconds: float) -> None:
        """Note a finished stage, whose files have their checksums in the folder's record by now."""
        self.stages[stage] = seconds
        write_json(self.folder.file(FILE), {"identity": self.identity, "stages": self.stages}, seal=True)
