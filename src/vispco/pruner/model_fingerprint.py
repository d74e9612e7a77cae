"""`ModelFingerprint`: which model a search was run on, so that a pruner knows whether it is put on another one."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from hashlib import blake2b
from typing import Any, Self

import torch

from vispco.core.errors import InvalidInputError, UnsupportedModelError
from vispco.cost import Dimensions
from vispco.engine import unwrap

_SPREAD = 256  # numbers of each tensor that the digest is made of, at equal distances
_LONGEST = 60  # characters of a size in a message


class OtherWeightsWarning(UserWarning):
    """A pruner is put on a model of the same class and sizes, but with other weights."""


@dataclass(frozen=True)
class ModelFingerprint:
    """The class and the sizes of a model, and a digest of its weights.

    dimensions: of the language model (layers, hidden size, heads, ...). weights: a digest of some numbers of every
    tensor in bfloat16, so that it does not depend on the precision that the model was loaded in.
    """

    model_class: str
    dimensions: dict[str, Any]
    weights: str

    @classmethod
    def of(cls, model: Any) -> Self:
        """The fingerprint of a model. Weights count by name, shape and some numbers; those not in memory, by name and shape."""
        model = unwrap(model)
        sizes = Dimensions.from_config(model.config).to_dict()
        del sizes["dtype_bytes"]  # the same model in another precision is the same model
        known = {name: list(value) if isinstance(value, tuple) else value for name, value in sizes.items()}
        digest = blake2b(digest_size=16)
        # of compiled parts
        named = {name.replace("_orig_mod.", ""): tensor for name, tensor in model.named_parameters()}
        for name in sorted(named):
            tensor = named[name].detach()
            digest.update(f"{name}:{tuple(tensor.shape)};".encode())
            if tensor.device.type != "meta" and tensor.is_floating_point():
                flat = tensor.reshape(-1)
                some = flat[:: max(1, flat.numel() // _SPREAD)].to("cpu", torch.bfloat16)
                digest.update(some.view(torch.int16).numpy().tobytes())
        return cls(type(model).__name__, known, digest.hexdigest())

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Any) -> Self:
        """From `to_dict`; keys that a newer version added are ignored."""
        kinds = {"model_class": str, "dimensions": dict, "weights": str}
        if not isinstance(data, Mapping) or not all(isinstance(data.get(name), kind) for name, kind in kinds.items()):
            raise InvalidInputError(
                f"This is not the fingerprint of a model: {data!r:.80}. It has a model_class, dimensions and weights."
            )
        return cls(**{name: data[name] for name in kinds})

    def check(self, model: Any, source: str) -> None:
        """Raise if `model` has another class or other sizes; warn if only its weights differ.

        source: what was found on the model of this fingerprint, for the message ("The run runs/one").
        """
        other = ModelFingerprint.of(model)
        differ = [
            f"{name} {_shown(self.dimensions[name])} there, {_shown(value)} here"
            for name, value in other.dimensions.items()
            if self.dimensions.get(name) is not None and _known(self.dimensions[name]) != _known(value)
        ]
        if self.model_class not in ("", other.model_class):
            differ.insert(0, f"{self.model_class} there, {other.model_class} here")
        if differ:
            raise UnsupportedModelError(
                f"{source} was made for another model ({'; '.join(differ)}). Its budgets would not hold on this one. Search "
                "on this model, or give the model that it was made for."
            )
        if self.weights not in ("", other.weights):
            warnings.warn(
                f"{source} was made for a model with other weights. Budgets hold, accuracies may differ: search again if "
                "this model was trained further.",
                OtherWeightsWarning,
                stacklevel=3,
            )


def _known(value: Any) -> Any:
    """A size as it is compared: of layers without a window, however many there are, nothing is known."""
    if not isinstance(value, list | tuple):
        return value
    return None if all(each is None for each in value) else list(value)


def _shown(value: Any) -> str:
    """A size as a person reads it; of one for each layer, which there are and how often."""
    if not isinstance(value, list | tuple):
        return str(value)
    known = [each for each in value if each is not None]
    if not known:
        return "none"
    kinds = ", ".join(dict.fromkeys(map(str, known)))
    return f"{kinds if len(kinds) <= _LONGEST else f'{kinds[:_LONGEST]}...'} in {len(known)} of {len(value)} layers"
