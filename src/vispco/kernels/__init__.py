"""Kernels: differentiable functions from a few unconstrained parameters to one retention per layer."""

from dataclasses import fields
from typing import Any

from vispco.core.errors import InvalidInputError
from vispco.core.registry import Registry
from vispco.kernels.kernel import Kernel
from vispco.kernels.own_kernels import Free, Steps
from vispco.kernels.paper_kernels import Exponential, Linear, MultiStep, PSigmoid, Single

KERNELS: Registry[type[Kernel]] = Registry("kernel", "vispco.kernels")
for _kernel in (Single, PSigmoid, Exponential, Linear, MultiStep, Steps, Free):
    KERNELS.register(_kernel)


def get(name: str, **options: Any) -> Kernel:
    """The kernel registered under `name`, with its options (r_min, earliest_layer, and gamma or steps where it has them)."""
    kernel = KERNELS.get(name)
    try:
        return kernel(**options)
    except TypeError as error:
        raise InvalidInputError(
            f"Kernel {name!r} was given the options {sorted(options)}. "
            f"It takes: {', '.join(field.name for field in fields(kernel))}."
        ) from error


__all__ = [
    "KERNELS",
    "Exponential",
    "Free",
    "Kernel",
    "Linear",
    "MultiStep",
    "PSigmoid",
    "Single",
    "Steps",
    "get",
]
