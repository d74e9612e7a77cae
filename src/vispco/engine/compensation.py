"""Compensation: attention that is given back to the visual tokens that are left.

Pruned keys are missed in the softmax: text attends to a picture by the sum over its keys, and fewer keys are a smaller sum. So
where K of a picture's N visual tokens are left, text queries see them with logits raised by

    beta * log(N / K)        and, once tokens were merged, by    beta * log(size * N / sum of the sizes that are left),

picture by picture and layer by layer, in the prefill and in every decoding step. It is a bias on the attention mask: entries that
are closed stay closed, and layers before which nothing has left are handed what they were. beta is `Chain.compensate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vispco.core.errors import UnsupportedModelError
from vispco.core.layout import TokenLayout
from vispco.engine.attention import FLASH, implementation_of
from vispco.engine.layer_map import LayerMap
from vispco.engine.plan import TokenPlan
from vispco.engine.wrappers import unwrap
from vispco.families import family_of
from vispco.scorers.allocation import picture_sizes
from vispco.scorers.chain import Chain
from vispco.scorers.mixture import chains_of


@dataclass(frozen=True, eq=False)
class Compensation:
    """The compensation of one prefill. betas: of each sample, on the host."""

    layout: TokenLayout
    betas: tuple[float, ...]

    @classmethod
    def of(cls, plan: TokenPlan, chain: Chain, layout: TokenLayout) -> Compensation | None:
        """The compensation of a plan, whose samples may follow different chains; None if none of them is compensated."""
        chains = chains_of(chain)
        if not any(each.compensate for each in chains):
            return None
        betas = tuple(chains[group].compensate for group in plan.groups or (0,) * layout.batch_size)
        return cls(layout, betas) if any(betas) else None

    def bias(self, counts: Sequence[int], live: Tensor, sizes: Tensor | None) -> Tensor | None:
        """The bias on text's logits for each live visual slot, bool [B, V]: float32 [B, V], 0 for the others.

        None where no sample that is compensated has lost a token. counts: of each sample, on the host. sizes: float [B, V], how
        many tokens each stands for; None where nothing was merged.
        """
        shown = zip(self.betas, counts, self.layout.whole.num_visual, strict=True)
        if not any(beta and count < number for beta, count, number in shown):
            return None
        picture, weight = self.layout.picture_index, live.float() if sizes is None else live * sizes
        left = torch.zeros_like(weight).scatter_add(1, picture, weight).gather(1, picture)
        ratio = self._shown / left.clamp(min=1.0)
        ratio = ratio if sizes is None else ratio * sizes
        return torch.where(live, self._betas * ratio.log(), 0.0)

    @cached_property
    def _shown(self) -> Tensor:
        """The number of visual tokens of each slot's picture: float32 [B, V]."""
        sizes = np.pad(picture_sizes(self.layout.whole), ((0, 0), (0, 1)))
        return self.layout.on_device(np.take_along_axis(sizes, self.layout.picture_at, axis=1).astype(np.float32))

    @cached_property
    def _betas(self) -> Tensor:
        """float32 [B, 1]."""
        return self.layout.on_device(np.array(self.betas, dtype=np.float32)[:, None])


def check_compensation_served(model: Any, layers: LayerMap, *, flat_masks: bool) -> None:
    """Refuse a model whose attention takes no bias. flat_masks: it takes padding masks only, as flash attention does."""
    if flat_masks:
        raise UnsupportedModelError(
            "compensate was given, and flash attention takes no bias on its logits. Call "
            "model.set_attn_implementation('sdpa'), or give compensate=0."
        )
    try:
        layers.check_readable()
    except UnsupportedModelError as error:
        raise UnsupportedModelError(
            f"compensate was given, and {type(model).__name__} does not run attention through transformers' attention "
            "functions, so a bias on its logits may be lost. Give compensate=0."
        ) from error


def can_compensate(model: Any) -> bool:
    """Whether a model is served with compensation."""
    inner = unwrap(model)
    family = family_of(inner)
    try:
        flat_masks = implementation_of(family.text_model(inner)) in FLASH
        check_compensation_served(inner, LayerMap.of(family, inner), flat_masks=flat_masks)
    except UnsupportedModelError:
        return False
    return True


def with_bias(mask: Tensor, bias: Tensor, text: Tensor | None, dtype: torch.dtype) -> Tensor:
    """An additive mask [B, 1, M, K]: a mask [B or 1, 1, M, K], boolean or additive, with a bias float [B, K] in rows of text.

    text: bool [B, M], which queries are text; None if all are. dtype: of the result, where the mask does not say it.
    """
    dtype = mask.dtype if mask.is_floating_point() else dtype
    added = bias.to(mask.device, dtype)[:, None, None, :]
    closed = torch.finfo(dtype).min
    if text is None:
        return mask + added if mask.is_floating_point() else torch.where(mask, added, closed)
    opened = mask
    if not mask.is_floating_point():
        opened = torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, closed)
    return torch.addcmul(opened, text.to(mask.device, dtype)[:, None, :, None], added)
