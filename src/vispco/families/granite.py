"""Granite 4 Vision: features of several vision layers are added at the entry of named decoder layers."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from vispco.families.base import Family


class Granite4Vision(Family):
    """The image positions start at zero; everything that they are comes from the injections."""

    model_types = ("granite4_vision",)
    injection_inputs = ("vision_mask", "deepstack_features")

    def injections(self, arguments: Mapping[str, Any]) -> tuple[Tensor, dict[int, Tensor]] | None:
        where, what = (arguments.get(name) for name in self.injection_inputs)
        return None if where is None or what is None else (where[..., 0], dict(what))
