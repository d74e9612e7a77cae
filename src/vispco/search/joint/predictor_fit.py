"""From a joint table to a predictor that remembers it; the language model does not run.

An input is known by its kind of instruction (`planning.instruction_groups`) or by the samples that are most like it. A few
hundred samples tell kinds apart, and no more; with a thousand, neighbours say more than kinds do. Which of the two it is, how
near a neighbour must be, and between which configurations of a level an input may choose is decided on left-out samples.
Neighbours are the same at all levels: how hard an input is compares levels, and two measures of it would not be comparable.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vispco.planning.configurations import Configurations
from vispco.planning.instruction_groups import BANDWIDTH, as_group_points, drawn_to_the_mean, left_out_means
from vispco.planning.joint_predictor import JointPredictor, JointPredictorConfig
from vispco.planning.memory import Memory, bounded
from vispco.planning.similarity import similarity_weights
from vispco.search.joint.choosing import ConfigurationChoice, choose_configurations
from vispco.search.joint.joint_table import JointTable
from vispco.search.joint.space import joint_kernel
from vispco.search.objective import Objective
from vispco.search.table.kl_table import HeldOutKl

BANDWIDTHS = (0.02, 0.05, 0.12, 0.25, 0.6, 1.2)
"""How far similarity may reach; see `planning.similarity`."""


@dataclass(frozen=True, eq=False)
class LevelFit:
    """The configurations of a level, by their columns in the table: which are kept, and what is remembered of them.

    remembered: bounded loss [M, k]. bandwidth: with which it is read. error: of what is estimated of left-out samples.
    """

    columns: Tensor
    choice: ConfigurationChoice
    remembered: Tensor
    bandwidth: float
    error: float


Fits = dict[float, LevelFit]


def fit_joint_predictor(objective: Objective, table: JointTable) -> tuple[JointPredictor, dict[float, HeldOutKl]]:
    """A predictor that remembers a table. Also its held-out KL by level."""
    configurations, groups = table.configurations, table.groups
    by_groups, by_neighbours = fit_by_groups(table), fit_by_neighbours(table)
    neighbours = _error(by_neighbours) < _error(by_groups)
    fits = by_neighbours if neighbours else by_groups
    kept, held_out = torch.zeros(len(configurations), dtype=torch.bool), {}
    loss, bandwidth = torch.empty_like(table.kl), torch.empty(len(configurations))
    for level, fit in fits.items():
        choice = fit.choice
        kept[fit.columns[choice.columns]] = True
        loss[:, fit.columns], bandwidth[fit.columns] = fit.remembered, fit.bandwidth
        held_out[level] = HeldOutKl(*(float(each.mean()) for each in (choice.static, choice.predictor, choice.oracle)))
    config = JointPredictorConfig(
        hidden=objective.cost.dimensions.hidden,
        anchors=len(configurations),
        samples=len(loss),
        kernel=joint_kernel(servable=table.servable).config(),
        servable=table.servable,
        chains=[chain.to_dict() for chain in configurations.chains],
        cost=objective.cost.to_dict(),
    )
    predictor = JointPredictor(config)
    _copy(predictor, configurations, kept)
    predictor.memory.remember(
        table.observation, loss, bandwidth, lambda points: points if neighbours else as_group_points(points, groups)
    )
    predictor.sizes.copy_(table.observation.sizes)
    return predictor.to(objective.model.device).eval(), held_out


def fit_by_groups(table: JointTable) -> Fits:
    """Inputs are known by their kinds of instruction."""
    found = {}
    for level, columns in _columns(table):
        kl = table.measured(columns)
        loss = bounded(kl)
        estimate = left_out_means(loss, table.groups)
        choice, remembered = choose_configurations(kl, estimate), drawn_to_the_mean(loss, table.groups)
        found[level] = LevelFit(columns, choice, remembered, BANDWIDTH, _relative_error(estimate, loss))
    return found


def fit_by_neighbours(table: JointTable) -> Fits:
    """Inputs are known by the samples that are most like them, within the distance that foretells losses best."""
    samples = len(table.kl)
    memory = Memory(table.observation.visual.shape[-1] // 2, samples, 1)
    memory.remember(table.observation, torch.zeros(samples, 1), torch.ones(1))
    losses = {level: bounded(table.measured(columns)) for level, columns in _columns(table)}
    best, weights, least = BANDWIDTHS[0], torch.empty(0), float("inf")
    for bandwidth in BANDWIDTHS:
        own = similarity_weights(memory.keys, memory.keys, bandwidth, leave_out_self=True)
        error = sum(_relative_error(own @ loss, loss) for loss in losses.values())
        if error < least:
            best, weights, least = bandwidth, own, error
    found = {}
    for level, columns in _columns(table):
        loss, estimate = losses[level], weights @ losses[level]
        choice = choose_configurations(table.measured(columns), estimate)
        found[level] = LevelFit(columns, choice, loss, best, _relative_error(estimate, loss))
    return found


def _relative_error(estimate: Tensor, loss: Tensor) -> float:
    """The mean squared error of an estimate [M, K], of the variance of what it estimates."""
    variance = float(loss.var(0, unbiased=False).mean())
    return float((estimate - loss).square().mean()) / max(1e-12, variance)


def _columns(table: JointTable) -> list[tuple[float, Tensor]]:
    configurations = table.configurations
    return [(level, (configurations.level == level).nonzero()[:, 0]) for level in configurations.levels]


def _error(fits: Fits) -> float:
    """How much the estimates of left-out samples are off, over all levels."""
    return sum(fit.error for fit in fits.values())


def _copy(predictor: Any, configurations: Configurations, kept: Tensor) -> None:
    predictor.params.copy_(configurations.params)
    predictor.chain.copy_(configurations.chain)
    predictor.level.copy_(configurations.level)
    predictor.kept.copy_(kept)
