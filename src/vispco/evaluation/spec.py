"""An evaluator as data: what a sweep's workers are sent, and what a study's results depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.evaluation.evaluator import TaskEvaluator

DTYPES = ("float32", "bfloat16", "float16")
SAMPLE_BYTES = 1 << 20
SPEED_ONLY = ("batch_size", "share", "device", "details")  # change how fast, or how much is told, not what is found


@dataclass(frozen=True, kw_only=True)
class EvaluatorSpec:
    """Everything that `build()` needs to make the same `TaskEvaluator` in another process or on another machine.

    model: a shipped model's name, a folder, or a hub id. scorer: its `to_dict()`. tasks, split, limit, seed: see
    `vispco.data.dataset`; limit is per task. dtype: a torch dtype's name. The spec is also a sweep's factory: calling it
    builds.
    """

    model: str
    scorer: Mapping[str, Any] = field(default_factory=lambda: {"name": "fastv"})
    tasks: str | tuple[str, ...] = "all"
    split: str = "test"
    limit: int | None = None
    seed: int = 0
    dtype: str = "float32"
    kl: bool = False
    direction: str = "pruned||full"
    max_new_tokens: int | None = None
    attention: str = "sdpa"
    batch_size: int = 64
    share: int = 1 << 30
    device: str = "cpu"
    details: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.tasks, str):
            object.__setattr__(self, "tasks", tuple(self.tasks))  # JSON gives a list
        object.__setattr__(self, "scorer", dict(self.scorer))

    def __call__(self) -> TaskEvaluator:
        return self.build()

    def build(self, **more: Any) -> TaskEvaluator:
        """Load the model, draw the samples, make the evaluator; `more` goes to it as it is (e.g. `progress`)."""
        from vispco import scorers  # noqa: PLC0415 - a spec is read and compared without torch
        from vispco.data import dataset  # noqa: PLC0415
        from vispco.evaluation.evaluator import TaskEvaluator  # noqa: PLC0415

        scorer = scorers.get(**self.scorer)
        samples = list(dataset(self.split, self.tasks, limit=self.limit, seed=self.seed))
        model, processor = self.load()
        options: dict[str, Any] = {
            "kl": self.kl,
            "direction": self.direction,
            "max_new_tokens": self.max_new_tokens,
            "batch_size": self.batch_size,
            "share": self.share,
            "details": self.details,
        }
        return TaskEvaluator(model, processor, samples, scorer, **(options | more))

    def load(self) -> tuple[Any, Any]:
        """(model, processor), ready for `generate()`."""
        from vispco.loading import load  # noqa: PLC0415

        if self.dtype not in DTYPES:
            raise InvalidInputError(f"dtype={self.dtype!r} was given. Give {', '.join(DTYPES)}.")
        model, processor = load(self.model, dtype=self.dtype, attn_implementation=self.attention)
        return model.to(self.device), processor

    def fingerprint(self) -> dict[str, Any]:
        """What the results depend on, JSON-able: two specs with the same one give the same evaluations."""
        known = {name: value for name, value in self.to_dict().items() if name not in SPEED_ONLY}
        return known | {"weights": weights_digest(self.model)}

    def to_dict(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        if "model" not in data:
            raise InvalidInputError('This is not an evaluator\'s spec: it names no "model".')
        return cls(**{name: value for name, value in data.items() if name in cls.__dataclass_fields__})


def weights_digest(model: str) -> str | None:
    """A digest of a local model's config and of both ends of its weights files; None for one that is not a folder.

    A model that was trained again under the same name is another model.
    """
    from vispco import zoo  # noqa: PLC0415

    folder = zoo.path(model) if model in zoo.names() else Path(model).expanduser()
    files = sorted([*folder.glob("config.json"), *folder.glob("*.safetensors")])
    if not files:
        return None
    digest = hashlib.sha256()
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as stream:
            digest.update(stream.read(SAMPLE_BYTES))
            stream.seek(max(0, size - SAMPLE_BYTES))
            digest.update(stream.read())
    return digest.hexdigest()[:16]
