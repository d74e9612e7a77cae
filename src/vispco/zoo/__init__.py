"""Small vision-language models of the real transformers classes, trained here, shipped with the package.

Names are imported on first use: which models there are is told without torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from vispco.zoo.answers import accuracy, answer
    from vispco.zoo.processor import JoinedProcessor, load_processor
    from vispco.zoo.shipped import DamagedWeightsError, load, names, path
    from vispco.zoo.training import train

_HOMES = {
    "DamagedWeightsError": "vispco.zoo.shipped",
    "JoinedProcessor": "vispco.zoo.processor",
    "accuracy": "vispco.zoo.answers",
    "answer": "vispco.zoo.answers",
    "load": "vispco.zoo.shipped",
    "load_processor": "vispco.zoo.processor",
    "names": "vispco.zoo.shipped",
    "path": "vispco.zoo.shipped",
    "train": "vispco.zoo.training",
}

__all__ = [
    "DamagedWeightsError",
    "JoinedProcessor",
    "accuracy",
    "answer",
    "load",
    "load_processor",
    "names",
    "path",
    "train",
]

__getattr__, __dir__ = lazy_exports(__name__, _HOMES)
