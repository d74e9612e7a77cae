"""An evaluator as data: what a sweep's workers are sent, and what a study's results depend on."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from vispco.errors import InvalidInputError

if TYPE_CHECKING:
    from vispco.evaluation.evaluator import TaskEvaluator

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
        import torch  # noqa: PLC0415
        from transformers import AutoModelForImageTextToText  # noqa: PLC0415

        from vispco import zoo  # noqa: PLC0415

        dtype = getattr(torch, self.dtype, None)
        if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
            raise InvalidInputError(f"dtype={self.dtype!r} was given. Give float32, bfloat16 or float16.")
        if self.model in zoo.names():
            model, processor = zoo.load(self.model, dtype=dtype)
        else:
            try:
                model = AutoModelForImageTextToText.from_pretrained(self.model, dtype=dtype).eval()
                processor = zoo.load_processor(self.model)
            except (OSError, ValueError) as error:
                raise InvalidInputError(
                    f"The model {self.model!r} cannot be loaded: {error} Give a shipped model "
                    f"({', '.join(zoo.names())}), a folder with a transformers model, or a hub id."
                ) from error
        model.set_attn_implementation(self.attention)
        return model.to(self.device), processor

    def fingerprint(self) -> dict[str, Any]:
        """What the results depend on, JSON-able: two specs with the same one give the same evaluations."""
        return {name: value for name, value in self.to_dict().items() if name not in SPEED_ONLY}

    def to_dict(self) -> dict[str, Any]:
        return json.loads(json.dumps(asdict(self)))  # type: ignore[no-any-return]

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        if "model" not in data:
            raise InvalidInputError('This is not an evaluator\'s spec: it names no "model".')
        return cls(**{name: value for name, value in data.items() if name in cls.__dataclass_fields__})
