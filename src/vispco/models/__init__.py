"""Small vision-language models of the real transformers classes, trained here, shipped with the package.

Names are imported on first use: listing the models needs no torch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vispco.core.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from vispco.models.processor import JoinedProcessor, load_processor
    from vispco.models.shipped import DamagedWeightsError, load, names, path
    from vispco_zoo.answers import accuracy, answer
    from vispco_zoo.training import train

_HOMES = {
    "DamagedWeightsError": "vispco.models.shipped",
    "JoinedProcessor": "vispco.models.processor",
    "accuracy": "vispco_zoo.answers",
    "answer": "vispco_zoo.answers",
    "load": "vispco.models.shipped",
    "load_processor": "vispco.models.processor",
    "names": "vispco.models.shipped",
    "path": "vispco.models.shipped",
    "train": "vispco_zoo.training",
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
