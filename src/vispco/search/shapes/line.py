"""The obvious rival: with two kernel parameters a budget leaves one free, so try its values and take the best KL."""

from __future__ import annotations

from collections.abc import Sequence

from vispco.errors import InvalidInputError
from vispco.kernels import Kernel
from vispco.planning.found_shape import Found
from vispco.search.batch import Batch
from vispco.search.objective import Objective
from vispco.search.shapes.halving import rank
from vispco.search.shapes.initial import shapes


def line_search(
    objective: Objective, batches: Sequence[Batch], kernel: Kernel, budget: float, *, rungs: int = 3
) -> Found:
    """The best value of the one free parameter at a budget, by calibration KL; tokens are dropped, no gradient."""
    num_layers = objective.cost.num_layers
    names = kernel.parameter_names(num_layers)
    if len(names) != 2:
        raise InvalidInputError(
            f"A line search moves one free parameter; kernel {kernel.name!r} has {len(names)} parameters, of which a "
            "budget fixes one. Use mode='static' or 'predictor', or a kernel with two parameters."
        )
    best = rank(objective, batches, kernel, shapes(kernel, num_layers), budget, rungs=rungs)
    described = kernel.describe(best.params[0], num_layers)
    return Found(budget, best.params[0], float(best.kl[0]), history=[{"samples": best.samples, "shape": described}])
