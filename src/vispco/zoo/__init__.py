"""Small vision-language models of the real transformers classes, trained here, shipped with the package."""

from vispco.zoo.accuracy import accuracy, answer
from vispco.zoo.processor import JoinedProcessor, load_processor
from vispco.zoo.shipped import DamagedWeightsError, load, names, path
from vispco.zoo.training import train

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
