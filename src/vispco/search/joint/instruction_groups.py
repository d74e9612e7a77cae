"""Groups of samples with similar instructions, by k-means on the instructions' embeddings.

Which configuration loses least differs between groups far more than between pictures or sizes, and a few dozen samples of a
group are enough to tell. The number of groups is the one with the largest mean silhouette.
"""

from __future__ import annotations

import torch
from torch import Tensor

from vispco.pruner.observation import Observation, feature_scales, raw_features, scaled_features

_MAX_GROUPS = 16
_MIN_GROUP_SIZE = 4  # samples of a group, on average
_MAX_ITERATIONS = 30  # of k-means
_SHRINKAGE = 4.0  # samples' worth of the overall mean in the mean of a group
BANDWIDTH = 0.02  # of squared distances to the groups' centres: an input belongs to the nearest one


def group_instructions(observation: Observation) -> Tensor:
    """The group of each sample: int64 [M], numbered from 0; all 0 where there are too few samples to tell."""
    raw = raw_features(observation)
    points = scaled_features(raw, *feature_scales(raw))[:, : (raw.shape[-1] - 1) // 3]  # the words'
    best, found = 0.0, torch.zeros(len(points), dtype=torch.int64)
    for count in range(2, min(_MAX_GROUPS, len(points) // _MIN_GROUP_SIZE) + 1):
        groups = _k_means(points, count)
        apart = _silhouette(points, groups)
        if apart > best:
            best, found = apart, groups
    return found


def leave_one_out_means(loss: Tensor, groups: Tensor, known: int | None = None) -> Tensor:
    """For each sample the mean loss [M, K] of the others of its group, shrunk to the mean of all others.

    known: only the first so many samples have a say.
    """
    member = torch.nn.functional.one_hot(groups).to(loss)
    says = torch.zeros(len(loss), 1).to(loss)
    says[:known] = 1.0
    total, same = (says * loss).sum(0), (member.T @ (says * loss))[groups]
    others = (member.T @ says)[groups] - says  # of the same group, [M, 1]
    overall = (total - says * loss) / (says.sum() - says).clamp_min(1.0)
    return (same - says * loss + _SHRINKAGE * overall) / (others + _SHRINKAGE)


def shrink_to_mean(loss: Tensor, groups: Tensor) -> Tensor:
    """Losses [M, K] whose mean over a group is the group's mean, shrunk to the mean of all as in `leave_one_out_means`."""
    size = torch.bincount(groups).to(loss)[groups][:, None]
    return (size * loss + _SHRINKAGE * loss.mean(0)) / (size + _SHRINKAGE)


def group_centres(points: Tensor, groups: Tensor) -> Tensor:
    """Points [M, F] of `scaled_features` with the mean instruction of their group, and nothing of picture and size."""
    words = (points.shape[-1] - 1) // 3
    member = torch.nn.functional.one_hot(groups).to(points)
    centres = (member.T @ points[:, :words]) / member.sum(0).clamp_min(1.0)[:, None]
    found = torch.zeros_like(points)
    found[:, :words] = centres[groups]
    return found


def _k_means(points: Tensor, count: int) -> Tensor:
    """Groups [M] of points; it begins with points that are far from one another, so that there is nothing to draw."""
    chosen = [int((points - points.mean(0)).square().sum(-1).argmin())]
    away = torch.cdist(points, points[chosen])[:, 0]
    while len(chosen) < count:
        chosen.append(int(away.argmax()))
        away = torch.minimum(away, torch.cdist(points, points[chosen[-1:]])[:, 0])
    centres, groups = points[chosen], torch.zeros(0)
    for _ in range(_MAX_ITERATIONS):
        new = torch.cdist(points, centres).argmin(-1)
        if torch.equal(new, groups):
            break
        groups = new
        member = torch.nn.functional.one_hot(groups, count).to(points)
        size = member.sum(0)[:, None]
        centres = torch.where(size > 0, member.T @ points / size.clamp_min(1.0), centres)
    numbered: Tensor = torch.unique(groups, return_inverse=True)[1]  # none is empty
    return numbered


def _silhouette(points: Tensor, groups: Tensor) -> float:
    """How well groups are apart, from -1 to 1: the mean over points, 0 for one that is alone."""
    away = torch.cdist(points, points)
    member = torch.nn.functional.one_hot(groups).to(points)
    size, sums = member.sum(0), away @ member
    if len(size) < 2:
        return 0.0
    own = sums.gather(1, groups[:, None])[:, 0] / (size[groups] - 1.0).clamp_min(1.0)
    other = (sums / size).scatter(1, groups[:, None], torch.inf).min(-1).values
    apart = (other - own) / torch.maximum(other, own).clamp_min(1e-12)
    return float(torch.where(size[groups] > 1, apart, 0.0).mean())
