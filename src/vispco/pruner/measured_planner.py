"""Planners for budgets that are no fraction of the FLOPs: of time (`0.6t`, `40ms`) or of KV bytes (`120MB`)."""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.core.layout import TokenLayout
from vispco.cost import Budget, Cost, Dimensions, Exact, KvBytes, Measured, TimeProfile, Workload
from vispco.cost.host import HostPricing
from vispco.cost.solve import counts_for_budget
from vispco.cost.time_profile import ProfileError
from vispco.cost.workload import Array
from vispco.engine.plan import PlanMemory, TokenPlan
from vispco.kernels import Kernel
from vispco.pruner.budget_planner import deployed_gamma
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under

STEPS = 50  # fractions of the FLOPs for which a shape is looked up: whole percents in twos


class MeasuredPlanner:
    """The engine's `Planner` for a budget of time or of bytes.

    Bytes hold for every sample. Time holds for the batch: a layer takes what its longest row takes, so one length of rows is
    planned for each layer, and every sample keeps as many tokens as fit into it beside its text.

    make_shape: the shapes (`Shape`) for a fraction of the FLOPs, of a kernel on layers of these dimensions. scored: the chain
    whose scoring is paid for; None: choosing is free.
    """

    def __init__(
        self,
        budget: Budget,
        make_shape: Callable[[Budget], Any],
        kernel: Kernel,
        dimensions: Dimensions,
        scored: Chain | None = None,
    ) -> None:
        self.budget, self.make_shape, self.kernel, self.dimensions = budget, make_shape, kernel, dimensions
        self.scored = scored
        self._costs, self._plans = MeasuredCosts(dimensions), PlanMemory()
        self._limits: dict[tuple[Any, ...], tuple[int, Array, Measured]] = {}
        self._shapes: dict[int, Any] = {}

    @torch.no_grad()
    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        sizes = layout.prompt_sizes
        if self.budget.kind == "bytes":
            cost, load = KvBytes(self.dimensions), self._workload(sizes)
            share = np.minimum(1.0, self.budget.amount / HostPricing(cost, load).divisor)
            step = self._step(share, load, cost)
            chosen = self._choose(step, layout, embeddings)
            return self._as_plan(self._solve(step, chosen, sizes, share, cost), chosen, sizes)
        longest = int(sizes[:, :2].sum(axis=1).argmax())
        step, share, measured = self._time_limit(sizes, embeddings)
        chosen = self._choose(step, layout, embeddings)[longest : longest + 1]

        def make() -> TokenPlan:
            kept = self._solve(step, chosen, covering_size(sizes), share, measured)[0]
            return self._as_plan(share_rows(kept, sizes), np.repeat(chosen, len(sizes), axis=0), sizes)

        key = (embeddings.device, embeddings.dtype, sizes.shape, sizes.tobytes(), chosen.tobytes())
        return self._plans.recall(key, make)

    def _time_limit(self, sizes: Array, embeddings: Tensor) -> tuple[int, Array, Measured]:
        """Of a batch: its fraction of the FLOPs in steps, and the share [1] of the time of the sample that stands for it."""
        size = covering_size(sizes)
        key = (size.tobytes(), len(sizes), embeddings.device, embeddings.dtype)
        if key not in self._limits:
            cost, load = self._costs.at(len(sizes), embeddings), self._workload(size)
            share = time_share(self.budget, load, cost)
            self._limits[key] = self._step(share, load, cost), share, cost
        return self._limits[key]

    def _workload(self, sizes: Array) -> Workload:
        """Samples of these sizes: int64 [n, 2 or 4], see `TokenLayout.prompt_sizes`."""
        columns = [torch.from_numpy(column.copy()) for column in sizes.T]
        if self.scored is not None:
            return workload_under(self.scored, self.dimensions, *columns).pinned(self.kernel.earliest_layer)
        read = columns[3] if len(columns) > 2 else 0
        return Workload(columns[0], columns[1], earliest_layer=self.kernel.earliest_layer, num_read=read)

    def _step(self, share: Array, workload: Workload, cost: Cost) -> int:
        """The fraction of the FLOPs that shares of another cost come to, in whole steps, of which `STEPS` are all."""
        return max(1, round(STEPS * flops_fraction(share, workload, cost)))

    def _at(self, step: int) -> Any:
        """What `make_shape` gives for a fraction of the FLOPs, in whole steps."""
        if step not in self._shapes:
            self._shapes[step] = self.make_shape(Budget("flops", min(1.0, step / STEPS)))
        return self._shapes[step]

    def _choose(self, step: int, layout: TokenLayout, embeddings: Tensor) -> Array:
        """What each sample gets: [B, ...], here the parameters of its shape."""
        found: Array = self._at(step)(layout, embeddings).double().cpu().numpy()
        return found

    def _solve(self, step: int, chosen: Array, sizes: Array, share: Array, cost: Cost) -> Array:  # noqa: ARG002
        """Whole tokens [n, L] by what was chosen [n, ...] for samples of sizes [n, 4], at shares [n] of a cost."""
        params, shares, load = torch.from_numpy(chosen), torch.from_numpy(share), self._workload(sizes)
        gamma = deployed_gamma(self.kernel)
        return counts_for_budget(self.kernel, params, shares, load, cost, gamma=gamma, asked=self.budget).numpy()

    def _as_plan(self, counts: Array, chosen: Array, sizes: Array) -> TokenPlan:  # noqa: ARG002
        return TokenPlan(torch.from_numpy(counts))


class MeasuredCosts:
    """Milliseconds of batches, by the profiles of the devices where they run; each is read once."""

    def __init__(self, dimensions: Dimensions) -> None:
        self.dimensions = dimensions
        self._known: dict[tuple[Any, ...], Measured] = {}

    def at(self, batch: int, embeddings: Tensor) -> Measured:
        """The cost of a batch of this size on the device and in the number format of the embeddings."""
        key = (batch, embeddings.device, embeddings.dtype)
        if key not in self._known:
            dtype = str(embeddings.dtype).removeprefix("torch.")
            profile = TimeProfile.load(self.dimensions, device_name(embeddings.device), dtype)
            self._known[key] = profile.cost(batch)
        return self._known[key]


def check_profile(model: Any) -> None:
    """Raise if times of this model on its device are not known; the error says how to measure them."""
    dtype = str(next(model.parameters()).dtype).removeprefix("torch.")
    found = TimeProfile.load(Dimensions.from_config(model.config), device_name(model.device), dtype)
    if not found.tower_ms:
        raise ProfileError(
            "The profile of this model was measured without its vision tower, by an earlier version, and budgets of time are of the "
            "whole time to the first token. Run `vispco profile MODEL` again."
        )


def time_share(budget: Budget, workload: Workload, cost: Measured) -> Array:
    """The share of the unpruned time that is planned with, for one sample: [1]. A whole budget needs no margin."""
    share = np.array([budget.amount])
    if budget.kind == "ms":
        share = share / HostPricing(cost, workload).divisor
    found: Array = np.where(share >= 1.0, 1.0, share * (1.0 - cost.margin))
    return found


def flops_fraction(share: Array, workload: Workload, cost: Cost) -> float:
    """The mean fraction of the FLOPs that shares [n] of another cost come to: for the choice of a shape."""
    pricing, exact = HostPricing(cost, workload), HostPricing(Exact(cost.dimensions), workload)
    curve = pricing.meet(np.ones((len(share), cost.num_layers)), np.maximum(share, pricing.lowest))
    return float((exact.relaxed(curve) / exact.divisor).mean())


def covering_size(sizes: Array) -> Array:
    """The sample that stands for a batch in time: as much text as any, as long as the longest: int64 [1, 2 or 4].

    A layer takes what its longest row takes, and text never leaves: so a sample with much text bounds the batch, even where
    another one is longer before pruning. sizes: [B, 2 or 4], see `TokenLayout.prompt_sizes`.
    """
    text = sizes[:, 0].max()
    return np.array([[text, sizes[:, :2].sum(axis=1).max() - text, *sizes[:, 2:].max(axis=0)]])


def share_rows(kept: Array, sizes: Array) -> Array:
    """Visual tokens [B, L] that fit into rows as long as those of `covering_size` with `kept` [L] visual tokens."""
    text, visual = sizes[:, :1], sizes[:, 1:2]
    found: Array = np.minimum(kept + text.max() - text, visual)
    return found


def device_name(device: torch.device) -> str:
    """The name of a GPU, or 'cpu' with the number of threads that torch uses."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"cpu {torch.get_num_threads()} threads" if device.type == "cpu" else device.type
