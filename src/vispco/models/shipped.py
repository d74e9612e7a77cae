"""The shipped models: where they are, whether they are whole, and how to load them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vispco.core.errors import UnknownNameError, VispcoError
from vispco.core.runs import files
from vispco.models import smol

if TYPE_CHECKING:
    import torch

MEASURED = ("tiny-qwen", "tiny-llava", "tiny-gemma")  # those that the figures of the benchmarks are about
ONE_OF_EACH_CLASS = (*MEASURED, "tiny-qwen3")
NAMES = (*ONE_OF_EACH_CLASS, "tiny-deep")  # the shipped models, the most used first
LOADABLE = (*NAMES, smol.NAME)  # with the one whose language model is fetched
WEIGHTS = Path(__file__).parent / "weights"
CARD = "card.json"


class DamagedWeightsError(VispcoError, OSError):
    """A file of a shipped model is missing or is not the one that was shipped."""


def names() -> list[str]:
    """The shipped models, the most used first."""
    return list(NAMES)


def path(name: str) -> Path:
    """The folder of a shipped model, as `from_pretrained` takes it."""
    if name not in LOADABLE:
        raise UnknownNameError("model", name, list(LOADABLE))
    return smol.folder() if name == smol.NAME else WEIGHTS / name


def card(name: str) -> tuple[dict[str, Any] | None, list[str]]:
    """What a model is and can do, None where its weights are not shipped; and the cells of its row in a table.

    Those are parameters, visual tokens, accuracy, the worst task, accuracy on blank pictures, and class.
    """
    file = WEIGHTS / name / CARD
    if not file.exists():
        return None, ["not shipped", *[""] * 5]
    facts = {key: value for key, value in json.loads(file.read_text()).items() if key not in ("curve", "sha256")}
    scores = {task: score for task, score in facts["accuracy"].items() if task != "average"}
    worst = min(scores, key=lambda task: scores[task])
    shares = [f"{facts['accuracy']['average']:.1%}", f"{worst} {scores[worst]:.1%}", f"{facts['blank']['average']:.1%}"]
    return facts, [f"{facts['parameters']:,}", facts["visual_tokens"], *shares, facts["architecture"]]


def verify(folder: Path) -> None:
    """Raise if a file of the folder is not what its card says."""
    name = folder.name
    restore = (
        f"Restore it with `git checkout -- {name}` in {folder.parent}, by installing vispco again, "
        f"or by training it: `vispco zoo train {name} --out {folder}`."
    )
    try:
        checksums = json.loads((folder / CARD).read_text())["sha256"]
    except FileNotFoundError as error:
        raise DamagedWeightsError(f"{folder / CARD} is missing. {restore}") from error
    except (json.JSONDecodeError, KeyError, UnicodeDecodeError) as error:
        raise DamagedWeightsError(f"{folder / CARD} is damaged: it has no list of checksums. {restore}") from error
    for file, expected in checksums.items():
        if not (folder / file).is_file():
            raise DamagedWeightsError(f"{folder / file} is missing. {restore}")
        if files.digest_file(folder / file) != expected:
            raise DamagedWeightsError(f"{folder / file} is damaged: its checksum is not the shipped one. {restore}")


def load(name: str, dtype: torch.dtype | None = None) -> tuple[Any, Any]:
    """(model, processor) of a shipped model: plain transformers objects, ready for `generate()`. dtype: float32 if none is given."""
    from vispco.models import loading  # noqa: PLC0415 - torch

    path(name)  # refuses other names
    return loading.load(name, dtype=dtype or "auto")
