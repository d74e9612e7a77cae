"""Fit a predictor to a joint table; the language model does not run.

An input is known by its group of instructions (`instruction_groups`) or by the samples that are most like it. A few hundred
samples tell groups apart, and no more; with a thousand, neighbours say more. The leave-one-out error decides between the two
and on the bandwidth, and left-out samples decide between which configurations of a level an input may choose. Neighbours are
the same at all levels: a mean budget compares the loss at one level with the loss at another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from vispco.pruner.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.pruner.kernel_regression import KernelRegression, kernel_weights, saturating_loss
from vispco.scorers.mixture import batch_kind
from vispco.search.joint.anchor_selection import ConfigurationChoice, choose_configurations
from vispco.search.joint.instruction_groups import BANDWIDTH, group_centres, leave_one_out_means, shrink_to_mean
from vispco.search.joint.joint_table import JointTable
from vispco.search.objective import Objective

_BANDWIDTHS = (0.02, 0.05, 0.12, 0.25, 0.6, 1.2)
"""Of the kernel regression; see `kernel_weights`."""


@dataclass(frozen=True)
class _HeldOutKl:
    """Mean KL on left-out samples.

    static: of the best single configuration. predictor: of the predictor's choice. reachable: of the best fit to what is known
    before the language model, cross-validated. oracle: of the best choice in hindsight, much of which is luck.
    """

    static: float
    predictor: float
    reachable: float
    oracle: float


@dataclass(frozen=True, eq=False)
class _LevelFit:
    """The configurations of a level, by their columns in the table: which are kept, and the loss that is stored.

    stored: saturating loss [M, k].
    """

    columns: Tensor
    choice: ConfigurationChoice
    stored: Tensor


@dataclass(frozen=True, eq=False)
class _TableFit:
    """What is stored of a table, by level. bandwidth: of the regression.

    error: how much the estimates of left-out samples are off, the sum over levels.
    """

    levels: dict[float, _LevelFit]
    bandwidth: float
    error: float


def fit_joint_predictor(objective: Objective, table: JointTable) -> tuple[JointPredictor, dict[float, _HeldOutKl]]:
    """A predictor fitted to a table, and its held-out KL by level."""
    configurations, groups = table.configurations, table.groups
    by_groups, by_neighbours = _fit_by_groups(table), _fit_by_neighbours(table)
    neighbours = by_neighbours.error < by_groups.error
    fit = by_neighbours if neighbours else by_groups
    kept, held_out = torch.zeros(len(configurations), dtype=torch.bool), {}
    loss, bandwidth = torch.empty_like(table.kl), torch.full((len(configurations),), fit.bandwidth)
    for level, own in fit.levels.items():
        choice = own.choice
        kept[own.columns[choice.columns]] = True
        kept[own.columns[_num_alike(table, own.columns) :]] = True
        loss[:, own.columns] = own.stored
        reachable = min(float(each.levels[level].choice.predictor.mean()) for each in (by_groups, by_neighbours))
        static, taken, oracle = (float(each.mean()) for each in (choice.static, choice.predictor, choice.oracle))
        held_out[level] = _HeldOutKl(static, taken, min(reachable, static), oracle)
    config = JointPredictorConfig(
        hidden=objective.cost.dimensions.hidden,
        anchors=len(configurations),
        samples=len(loss),
        kernel=table.kernel.config(),
        servable=table.servable,
        chains=[chain.to_dict() for chain in configurations.chains],
        cost=objective.cost.to_dict(),
    )
    predictor = JointPredictor(config)
    for name in ("params", "chain", "level"):
        getattr(predictor, name).copy_(getattr(configurations, name))
    predictor.kept.copy_(kept)
    predictor.memory.fit(
        table.observation, loss, bandwidth, lambda points: points if neighbours else group_centres(points, groups)
    )
    predictor.sizes.copy_(table.observation.sizes)
    return predictor.to(objective.model.device).eval(), held_out


def _fit_by_groups(table: JointTable) -> _TableFit:
    """Inputs are known by their groups of instructions."""
    groups = table.groups
    return _fit(
        table, BANDWIDTH, lambda loss: leave_one_out_means(loss, groups), lambda loss: shrink_to_mean(loss, groups)
    )


def _fit_by_neighbours(table: JointTable) -> _TableFit:
    """Inputs are known by the samples that are most like them, at the bandwidth with the least leave-one-out error."""
    samples = len(table.kl)
    memory = KernelRegression(table.observation.visual.shape[-1] // 2, samples, 1)
    memory.fit(table.observation, torch.zeros(samples, 1), torch.ones(1))
    losses = [saturating_loss(table.measured(columns)) for _, columns in _columns(table)]
    weights = {b: kernel_weights(memory.keys, memory.keys, b, leave_one_out=True) for b in _BANDWIDTHS}
    errors = {b: sum(_relative_error(own @ loss, loss) for loss in losses) for b, own in weights.items()}
    best = min(errors, key=lambda bandwidth: errors[bandwidth])
    return _fit(table, best, lambda loss: weights[best] @ loss, lambda loss: loss)


def _fit(
    table: JointTable, bandwidth: float, estimate: Callable[[Tensor], Tensor], store: Callable[[Tensor], Tensor]
) -> _TableFit:
    """estimate: of the saturating loss [M, k] of each sample, from the others. store: what is kept of the loss."""
    levels, error = {}, 0.0
    for level, columns in _columns(table):
        kl = table.measured(columns)
        loss = saturating_loss(kl)
        own, alike = estimate(loss), _num_alike(table, columns)
        levels[level] = _LevelFit(columns, choose_configurations(kl[:, :alike], own[:, :alike]), store(loss))
        error += _relative_error(own, loss)
    return _TableFit(levels, bandwidth, error)


def _relative_error(estimate: Tensor, loss: Tensor) -> float:
    """The mean squared error of an estimate [M, K], of the variance of what it estimates."""
    variance = float(loss.var(0, unbiased=False).mean())
    return float((estimate - loss).square().mean()) / max(1e-12, variance)


def _columns(table: JointTable) -> list[tuple[float, Tensor]]:
    """The levels of a table, and the columns of their configurations."""
    configurations = table.configurations
    return [(level, (configurations.level == level).nonzero()[:, 0]) for level in configurations.levels]


def _num_alike(table: JointTable, columns: Tensor) -> int:
    """Of the configurations of a level, those that share a batch with the first: all but a spare one at the end."""
    kinds = [batch_kind(table.configurations.chains[int(table.configurations.chain[column])]) for column in columns]
    return sum(kind == kinds[0] for kind in kinds)
