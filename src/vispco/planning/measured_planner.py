"""Planners for budgets that are no fraction of the FLOPs: of time (`0.6t`, `40ms`) or of KV bytes (`120MB`)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.cost import Budget, Cost, Dimensions, Exact, KvBytes, Measured, Site, TimeProfile, Workload
from vispco.cost.host import Array, HostPricing
from vispco.cost.solve import counts_for_budget
from vispco.engine.plan import TokenPlan
from vispco.kernels import Kernel
from vispco.layout import TokenLayout
from vispco.planning.anchor_chooser import AnchorChooser
from vispco.planning.found_shape import deployed_gamma

MakeShape = Callable[[float], "Callable[[TokenLayout, Tensor], Tensor] | AnchorChooser"]
"""A fraction of the FLOPs -> the shapes for it."""
STEPS = 50  # fractions of the FLOPs for which a shape is looked up: whole percents in twos


@dataclass(frozen=True, eq=False)
class Priced:
    """What a planner solves for: a kernel on layers of these sizes, and where tokens leave."""

    kernel: Kernel
    dimensions: Dimensions
    site: Site | tuple[Site, ...] = "entry"

    def workload(self, text: Any, visual: Any) -> Workload:
        num_text, num_visual = (torch.from_numpy(np.array(numbers, dtype=np.int64)) for numbers in (text, visual))
        return Workload(num_text, num_visual, self.site, self.kernel.earliest_layer)

    def counts(self, params: Tensor, budget: Array, workload: Workload, cost: Cost) -> Array:
        """Whole tokens [n, L] of shapes params [n, P] at fractions [n] of a cost."""
        gamma = deployed_gamma(self.kernel)
        return counts_for_budget(self.kernel, params, torch.from_numpy(budget), workload, cost, gamma=gamma).numpy()

    def flops_fraction(self, budget: Array, workload: Workload, cost: Cost) -> float:
        """Which fraction of the FLOPs a fraction of another cost comes to, on average: for the choice of a shape."""
        pricing, exact = HostPricing(cost, workload), HostPricing(Exact(self.dimensions), workload)
        curve = pricing.meet(np.ones((len(budget), self.dimensions.num_layers)), np.maximum(budget, pricing.lowest))
        return float((exact.relaxed(curve) / exact.divisor).mean())


class MeasuredPlanner:
    """The engine's `Planner` for a budget of time or of bytes.

    Bytes hold for every sample. Time holds for the batch: it takes what its longest sample takes at each layer, so that is
    the one that is planned, and the others keep as many tokens as fit beside it without making a layer longer.
    """

    def __init__(self, budget: Budget, make_shape: MakeShape, priced: Priced) -> None:
        self.budget, self.make_shape, self.priced = budget, make_shape, priced
        self._shapes: dict[int, Any] = {}
        self._costs: dict[tuple[Any, ...], Measured] = {}
        self._known: dict[tuple[Any, ...], Array] = {}

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        plan = self._by_bytes if self.budget.kind == "bytes" else self._by_time
        return TokenPlan(torch.from_numpy(plan(layout, embeddings)))

    def _by_bytes(self, layout: TokenLayout, embeddings: Tensor) -> Array:
        cost = KvBytes(self.priced.dimensions)
        workload = self.priced.workload(layout.num_prompt, layout.num_visual)
        pricing = HostPricing(cost, workload)
        budget = np.minimum(1.0, self.budget.amount / pricing.divisor)
        params = self._params(budget, workload, cost, layout, embeddings)
        return self.priced.counts(params, budget, workload, cost)

    def _by_time(self, layout: TokenLayout, embeddings: Tensor) -> Array:
        cost = self.cost(layout.batch_size, embeddings)
        text, visual = np.array(layout.num_prompt), np.array(layout.num_visual)
        longest = int((text + visual).argmax())
        workload = self.priced.workload(text[longest : longest + 1], visual[longest : longest + 1])
        budget = np.array([self.budget.amount])
        if self.budget.kind == "ms":
            budget = np.minimum(1.0, budget / HostPricing(cost, workload).divisor)
        params = self._params(budget, workload, cost, layout, embeddings)[longest : longest + 1]
        key = (cost.batch, int(text[longest]), int(visual[longest]), params.numpy().tobytes())
        if key not in self._known:
            self._known[key] = self.priced.counts(params, budget, workload, cost)[0] + text[longest]
        room = self._known[key][None] - text[:, None]  # visual tokens that fit beside the longest sample
        found: Array = np.minimum(room.clip(0), visual[:, None])
        return found

    def cost(self, batch: int, embeddings: Tensor) -> Measured:
        """Milliseconds of so many samples where the embeddings are."""
        key = (batch, embeddings.device, embeddings.dtype)
        if key not in self._costs:
            dtype = str(embeddings.dtype).removeprefix("torch.")
            profile = TimeProfile.load(self.priced.dimensions, device_name(embeddings.device), dtype)
            self._costs[key] = profile.cost(batch)
        return self._costs[key]

    def _params(self, budget: Array, workload: Workload, cost: Cost, layout: TokenLayout, embeddings: Tensor) -> Tensor:
        """The shape of each sample, for the fraction of the FLOPs that the budget comes to: [B, P], on the host."""
        step = max(1, round(STEPS * self.priced.flops_fraction(budget, workload, cost)))
        if step not in self._shapes:
            self._shapes[step] = self.make_shape(min(1.0, step / STEPS))
        shape = self._shapes[step]
        if isinstance(shape, AnchorChooser):
            anchors: Tensor = shape.params
            return anchors[torch.from_numpy(shape(layout, embeddings))]
        found: Tensor = shape(layout, embeddings)
        return found.detach().double().cpu()


def device_name(device: torch.device) -> str:
    """The name of a GPU, or 'cpu' with the number of threads that torch uses."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"cpu {torch.get_num_threads()} threads" if device.type == "cpu" else device.type
