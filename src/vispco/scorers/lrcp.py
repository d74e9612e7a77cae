"""LRCP: the tokens that the leading principal components of the picture explain least.

After "LRCP" (arXiv 2605.15621), of which only a summary could be read. The principal components of the visual tokens that are
left are what they have in common; the score of a token is the length of what the leading ones leave of it. No attention and no
text. Faithful: the score. The rank is not stated there: an option here. Tokens are taken as they entered the language model,
and the pictures of a sample are one pool.
Components come from the table of inner products, whose decomposition grows with the cube of the tokens and is no matrix product.
"""

import torch
from torch import Tensor

from vispco.core.errors import InvalidInputError
from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext

_EQUAL = 1e-5  # of the longest token, squared: nearer scores are rounding error, and the earlier token is kept


@register
class LRCP(Scorer):
    """The residual off the leading subspace. rank: the number of principal components that are taken away."""

    name = "lrcp"
    needs_attention = False

    def __init__(self, *, rank: int = 8) -> None:
        if rank < 0:
            raise InvalidInputError(
                f"rank={rank} was given to lrcp. Give the number of principal components, 0 or more."
            )
        self.rank = rank

    def score(self, context: ScoringContext) -> Tensor:
        live, states = context.live[..., None], context.visual_embeddings().float()
        mean = (states * live).sum(1, keepdim=True) / live.sum(1, keepdim=True).clamp(min=1)
        centred = (states - mean) * live
        products = (centred @ centred.transpose(1, 2)).double()
        values, vectors = torch.linalg.eigh(products)  # ascending
        beyond = max(0, values.shape[1] - self.rank)
        # [B, V], squared lengths
        residual = (vectors[..., :beyond] ** 2 * values[:, None, :beyond].clamp(min=0)).sum(-1)
        longest = products.diagonal(dim1=1, dim2=2).amax(-1, keepdim=True)
        found: Tensor = (residual / (longest * _EQUAL).clamp(min=1e-30)).round()
        return found

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * num_visual**2 * dimensions.hidden
