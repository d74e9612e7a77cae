"""An evaluator as data: what a sweep's workers are sent, and what a study's results depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from vispco.core.errors import InvalidInputError
from vispco.models.model_spec import ModelSpec

if TYPE_CHECKING:
    from vispco.data.files.samples import SampleSet
    from vispco.data.sample import Sample
    from vispco.evaluation.evaluator import TaskEvaluator
    from vispco.metrics import AskSettings

_SAMPLE_BYTES = 1 << 20
# fields that say nothing about synthetic tasks
_FILES_ONLY = ("files", "encoding", "max_side", "protocol", "metrics", "min_pixels", "max_pixels")
# fields that change how fast or where it runs, or how much is reported, but no result
_SPEED_ONLY = ("batch_size", "share", "details", "model")


@dataclass(frozen=True, kw_only=True)
class EvaluatorSpec:
    """Everything that `build()` needs to make the same `TaskEvaluator` in another process or on another machine.

    model: a `ModelSpec`, or a name that is loaded as it comes. scorer: its `to_dict()`. tasks, split, limit, seed: see
    `vispco.data.dataset`; limit is per task. files: benchmarks by name with their files, in place of synthetic tasks;
    a limit then draws rows by the seed; encoding, max_side: how they are read; protocol, metrics, min_pixels,
    max_pixels: how they are asked and scored (`vispco.metrics.AskSettings`). The spec is also a sweep's factory: calling
    it builds.
    """

    model: ModelSpec
    scorer: Mapping[str, Any] = field(default_factory=lambda: {"name": "fastv"})
    tasks: str | tuple[str, ...] = "all"
    split: str = "test"
    limit: int | None = None
    seed: int = 0
    kl: bool = False
    direction: str = "pruned||full"
    max_new_tokens: int | None = None
    batch_size: int = 64
    share: int = 1 << 30
    details: bool = False
    files: Mapping[str, str] = field(default_factory=dict)
    encoding: str = "utf-8"
    max_side: int | None = None
    protocol: str = "ours"
    metrics: Mapping[str, str] = field(default_factory=dict)
    min_pixels: int | None = None
    max_pixels: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "model", ModelSpec.of(self.model))
        if not isinstance(self.tasks, str):
            object.__setattr__(self, "tasks", tuple(self.tasks))  # JSON gives a list
        object.__setattr__(self, "scorer", dict(self.scorer))
        object.__setattr__(self, "metrics", dict(self.metrics))
        object.__setattr__(self, "files", {name: str(path) for name, path in self.files.items()})

    def __call__(self) -> TaskEvaluator:
        return self.build()

    def build(self, **more: Any) -> TaskEvaluator:
        """Draw or read the samples, load the model, make the evaluator; `more` goes to it as it is (e.g. `progress`)."""
        from vispco.evaluation.evaluator import TaskEvaluator  # noqa: PLC0415 - a spec is read and compared without torch
        from vispco.scorers import Chain  # noqa: PLC0415

        scorer = Chain.of(self.scorer)  # refused before anything is drawn or read
        self.model.check()
        samples = self.samples()
        model, processor = self.model.load()
        samples = samples.for_model(model, processor)
        names = ("kl", "direction", "max_new_tokens", "batch_size", "share", "details")
        options = {name: getattr(self, name) for name in names}
        return TaskEvaluator(model, processor, samples, scorer, **(options | more))

    def calibration(self, limit: int) -> Self:
        """The same model on calibration items of the same tasks; of benchmarks, on those of all synthetic tasks."""
        return replace(self, split="calibration", limit=limit, files={}, tasks="all" if self.files else self.tasks)

    def samples(self) -> SampleSet[Sample]:
        """What is asked: drawn samples, or the rows of benchmark files."""
        from vispco.data import dataset  # noqa: PLC0415
        from vispco.data.files.samples import SampleSet  # noqa: PLC0415
        from vispco.metrics import read_benchmarks  # noqa: PLC0415

        if not self.files:
            return SampleSet(list(dataset(self.split, self.tasks, limit=self.limit, seed=self.seed)))
        if self.limit is not None and self.limit < 1:
            raise InvalidInputError(f"limit is {self.limit}; it is the number of items per task, 1 or more.")
        return read_benchmarks(
            self.files,
            limit=self.limit,
            seed=self.seed,
            encoding=self.encoding,
            max_side=self.max_side,
            settings=self.asking(),
        )

    def asking(self) -> AskSettings:
        """How benchmark rows are asked and scored."""
        from vispco.metrics import AskSettings  # noqa: PLC0415

        names = ("protocol", "metrics", "max_new_tokens", "min_pixels", "max_pixels")
        return AskSettings(**{name: getattr(self, name) for name in names})

    def named(self) -> dict[str, Any]:
        """What is asked, as a result keeps it: a split of synthetic tasks, or files with their protocol and metrics."""
        if not self.files:
            return {"split": self.split, "files": {}, "protocol": None, "metrics": {}}
        return {"split": None, "files": dict(self.files), "protocol": self.protocol, "metrics": self._metrics_by_file()}

    def _metrics_by_file(self) -> dict[str, str]:
        from vispco.metrics import benchmark  # noqa: PLC0415

        return {name: self.asking().metric(benchmark(name, own=True)) for name in self.files}

    def fingerprint(self) -> dict[str, Any]:
        """What the results depend on, JSON-able: two specs with the same one give the same evaluations."""
        left_out = {*_SPEED_ONLY, *(("tasks", "split") if self.files else _FILES_ONLY)}
        model = self.model
        known = {name: value for name, value in self.to_dict().items() if name not in left_out} | {
            "model": model.name,
            "dtype": model.dtype,
            "attention": model.attn_implementation,
            "revision": model.revision,
        }
        if self.files:  # what is in them counts, not where they are
            from vispco.data.files import data_files  # noqa: PLC0415

            known["files"] = {name: digest(data_files(path)) for name, path in self.files.items()}
            known["metrics"] = self._metrics_by_file()
        return known | {"weights": weights_digest(self.model.name)}

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
    from vispco.models import shipped  # noqa: PLC0415

    folder = shipped.path(model) if model in shipped.LOADABLE else Path(model).expanduser()
    files = sorted([*folder.glob("config.json"), *folder.glob("*.safetensors")])
    return digest(files) if files else None


def digest(files: Sequence[Path]) -> str:
    """Of the names, sizes and both ends of files: they may be too large to be read whole."""
    found = hashlib.sha256()
    for file in files:
        if not file.is_file():
            raise InvalidInputError(f"The file {file} does not exist.")
        size = file.stat().st_size
        found.update(f"{file.name}:{size}:".encode())
        with file.open("rb") as stream:
            found.update(stream.read(_SAMPLE_BYTES))
            stream.seek(max(0, size - _SAMPLE_BYTES))
            found.update(stream.read())
    return found.hexdigest()[:16]
