"""Planners for budgets that are no fraction of the FLOPs: of time (`0.6t`, `40ms`) or of KV bytes (`120MB`)."""

from collections.abc import Callable
from dataclasses import dataclass
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
from vispco.pruner.budget_planner import Shape, deployed_gamma
from vispco.scorers import Chain
from vispco.scorers.cost import workload_under

STEPS = 50  # fractions of the FLOPs for which a shape is looked up: whole percents in twos


@dataclass(frozen=True, eq=False)
class Priced:
    """A problem that a planner solves: a kernel on layers of these sizes, and the chain that chooses, if that is known."""

    kernel: Kernel
    dimensions: Dimensions
    chain: Chain | None = None

    def workload(self, sizes: Any) -> Workload:
        """Samples of these sizes: int64 [n, 2 or 4], see `TokenLayout.prompt_sizes`."""
        columns = [torch.from_numpy(column.copy()) for column in np.asarray(sizes, dtype=np.int64).T]
        if self.chain is not None:
            return workload_under(self.chain, self.dimensions, *columns).pinned(self.kernel.earliest_layer)
        read = columns[3] if len(columns) > 2 else 0
        return Workload(columns[0], columns[1], earliest_layer=self.kernel.earliest_layer, num_read=read)

    def counts(self, params: Tensor, budget: Array, workload: Workload, cost: Cost, asked: Budget) -> Array:
        """Whole tokens [n, L] of shapes params [n, P] at fractions [n] of a cost, to which the asked budget comes."""
        gamma, share = deployed_gamma(self.kernel), torch.from_numpy(budget)
        return counts_for_budget(self.kernel, params, share, workload, cost, gamma=gamma, asked=asked).numpy()

    def flops_fraction(self, budget: Array, workload: Workload, cost: Cost) -> float:
        """The mean fraction of the FLOPs that fractions of another cost come to: for the choice of a shape."""
        pricing, exact = HostPricing(cost, workload), HostPricing(Exact(self.dimensions), workload)
        curve = pricing.meet(np.ones((len(budget), self.dimensions.num_layers)), np.maximum(budget, pricing.lowest))
        return float((exact.relaxed(curve) / exact.divisor).mean())

    def step(self, budget: Array, workload: Workload, cost: Cost) -> int:
        """`flops_fraction` in whole steps, of which `STEPS` are all of the FLOPs."""
        return max(1, round(STEPS * self.flops_fraction(budget, workload, cost)))


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


def covering_size(sizes: Array) -> tuple[int, ...]:
    """The sample that stands for a batch in time: as much text as any, as long as the longest; see `TokenLayout.prompt_sizes`.

    A layer takes what its longest row takes, and text never leaves: so a sample with much text bounds the batch, even where
    another one is longer before pruning.
    """
    text = int(sizes[:, 0].max())
    return text, int(sizes[:, :2].sum(axis=1).max()) - text, *(int(number) for number in sizes[:, 2:].max(axis=0))


def share_rows(kept: Array, sizes: Array) -> Array:
    """Visual tokens [B, L] that fit into rows as long as those of `covering_size` with `kept` [L] visual tokens."""
    text, visual = sizes[:, :1], sizes[:, 1:2]
    found: Array = np.minimum(kept + text.max() - text, visual)
    return found


@dataclass(frozen=True, eq=False)
class _TimeLimit:
    """The limit of a batch: the sample that stands for it, and the share [1] of that sample's unpruned time.

    step: the fraction of the FLOPs that it comes to, in whole steps.
    """

    workload: Workload
    share: Array
    cost: Measured
    step: int


class TimeLimits:
    """The limits of a budget of time by the `covering_size` of a batch, each worked out once."""

    def __init__(self, budget: Budget, priced: Priced) -> None:
        self.budget, self.priced = budget, priced
        self.costs = MeasuredCosts(priced.dimensions)
        self._known: dict[tuple[Any, ...], _TimeLimit] = {}

    def of(self, size: tuple[int, ...], batch: int, embeddings: Tensor) -> _TimeLimit:
        """The limit of a batch that a sample of this size stands for."""
        cost = self.costs.at(batch, embeddings)
        key = (*size, batch, embeddings.device, embeddings.dtype)
        found = self._known.get(key)
        if found is None:
            workload = self.priced.workload([size])
            share = time_share(self.budget, workload, cost)
            found = self._known[key] = _TimeLimit(workload, share, cost, self.priced.step(share, workload, cost))
        return found


class MeasuredPlanner:
    """The engine's `Planner` for a budget of time or of bytes.

    Bytes hold for every sample. Time holds for the batch: a layer takes what its longest row takes, so one length of rows is
    planned for each layer, and every sample keeps as many tokens as fit into it beside its text.

    make_shape: the shapes for a fraction of the FLOPs.
    """

    def __init__(self, budget: Budget, make_shape: Callable[[Budget], Shape], priced: Priced) -> None:
        self.budget, self.make_shape, self.priced = budget, make_shape, priced
        self._shapes: dict[int, Any] = {}
        self._limits = TimeLimits(budget, priced)
        self._plans = PlanMemory()

    def __call__(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        plan = self._by_bytes if self.budget.kind == "bytes" else self._by_time
        return plan(layout, embeddings)

    def _by_bytes(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        cost = KvBytes(self.priced.dimensions)
        workload = self.priced.workload(layout.prompt_sizes)
        budget = np.minimum(1.0, self.budget.amount / HostPricing(cost, workload).divisor)
        params = self._params(self.priced.step(budget, workload, cost), layout, embeddings)
        return TokenPlan(torch.from_numpy(self.priced.counts(params, budget, workload, cost, self.budget)))

    def _by_time(self, layout: TokenLayout, embeddings: Tensor) -> TokenPlan:
        rows = layout.prompt_sizes
        sizes = tuple(map(tuple, rows.tolist()))
        longest = max(range(len(sizes)), key=lambda place: sum(sizes[place][:2]))
        limit = self._limits.of(covering_size(rows), len(sizes), embeddings)
        params = self._params(limit.step, layout, embeddings)[longest : longest + 1]

        def make() -> TokenPlan:
            kept = self.priced.counts(params, limit.share, limit.workload, limit.cost, self.budget)[0]
            return TokenPlan(torch.from_numpy(share_rows(kept, rows)))

        return self._plans.recall((limit, sizes, params.numpy().tobytes()), make)

    def _params(self, step: int, layout: TokenLayout, embeddings: Tensor) -> Tensor:
        """The shape of each sample, for a fraction of the FLOPs in whole steps: [B, P], on the host."""
        if step not in self._shapes:
            self._shapes[step] = self.make_shape(Budget("flops", min(1.0, step / STEPS)))
        found: Tensor = self._shapes[step](layout, embeddings)
        return found.detach().double().cpu()


def device_name(device: torch.device) -> str:
    """The name of a GPU, or 'cpu' with the number of threads that torch uses."""
    if device.type == "cuda":
        return str(torch.cuda.get_device_name(device))
    return f"cpu {torch.get_num_threads()} threads" if device.type == "cpu" else device.type
