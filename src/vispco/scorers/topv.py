"""TopV: how much a token contributes to what the layer before made of the picture, by optimal transport.

After Yang et al., "TopV" (CVPR 2025), whose definition of importance and constants could not be read. Sources are the visual
tokens as they entered the layer before, targets as they left it. Cost of a pair: Euclidean distance of the states (in units of
its mean) + 1 - exp(-d^2 / 2) for their distance d on the grid + the source's distance from the picture's centre. Three
Sinkhorn iterations between uniform marginals; a source's contribution is what it sends. Tokens with the largest contributions
stay, and a tenth of the places go to others at even steps ("recovery").
Each iteration ends with the targets' update: after an update of the sources, what they send is their marginal exactly, whatever
the cost, and the score would say nothing.
"""

import torch
from torch import Tensor

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, Selection, ranks, register
from vispco.scorers.context import ScoringContext


@register
class TopV(Scorer):
    """Contribution in a transport plan; reads no attention."""

    name = "topv"
    needs_attention = False
    needs_hidden = True
    needs_previous_hidden = True

    def __init__(self, iterations: int = 3, smoothing: float = 0.1, recovery: float = 0.1) -> None:
        self.iterations, self.smoothing, self.recovery = iterations, smoothing, recovery

    def select(self, context: ScoringContext) -> Selection:
        scores, live = self.score(context), context.live
        recovered = (context.counts * self.recovery).floor().long()
        chosen = (ranks(scores, live) < (context.counts - recovered)[:, None]) & live
        rest = live & ~chosen
        place, number = rest.long().cumsum(-1) - 1, rest.sum(-1, keepdim=True).clamp(min=1)
        step = recovered[:, None]
        even = ((place + 1) * step // number) > (place * step // number)
        return Selection(chosen | (rest & even), scores)

    def score(self, context: ScoringContext) -> Tensor:
        cost, live = _transport_cost(context), context.live
        kernel = torch.exp(-cost / self.smoothing) * live[:, :, None] * live[:, None]
        marginal = live.double() / live.sum(-1, keepdim=True).clamp(min=1)
        targets = live.double()
        for _ in range(self.iterations):
            sums = (kernel * targets[:, None]).sum(2)
            sources = torch.where(sums > 0, marginal / sums.clamp(min=1e-30), 0.0)
            sums = (kernel * sources[..., None]).sum(1)
            targets = torch.where(sums > 0, marginal / sums.clamp(min=1e-30), 0.0)
        sent = sources * (kernel * targets[:, None]).sum(2)
        return sent * live.sum(-1, keepdim=True) - 1  # relative to the marginal, which it is close to

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return 2 * num_visual**2 * dimensions.hidden


def _transport_cost(context: ScoringContext) -> Tensor:
    """The cost of each pair of visual tokens: float64 [B, V, V], sources first."""
    before, after, live = context.previous_hidden.double(), context.hidden.double(), context.live
    squares = (before**2).sum(-1)[..., None] + (after**2).sum(-1)[:, None]
    feature = (squares - 2 * before @ after.transpose(1, 2)).clamp(min=0).sqrt()
    pairs = live[:, :, None] & live[:, None]
    mean = (feature * pairs).sum((1, 2)) / pairs.sum((1, 2)).clamp(min=1)
    cost: Tensor = feature / mean.clamp(min=1e-12)[:, None, None]
    grid, image, sizes = context.layout.coordinates, context.layout.image_index, context.layout.image_sizes
    if grid is None or sizes is None:
        return cost
    apart = ((grid[:, :, None] - grid[:, None]).double() ** 2).sum(-1)
    apart = torch.where(image[:, :, None] == image[:, None], 1 - torch.exp(-apart / 2), 1.0)
    middle = ((torch.tensor(sizes, device=grid.device) - 1) / 2)[image.clamp(min=0)]  # of the picture: [B, V, 3]
    # 1 at the corners
    from_centre = ((grid - middle) ** 2).sum(-1).sqrt() / (middle**2).sum(-1).sqrt().clamp(min=0.5)
    return cost + apart + from_centre[..., None]
