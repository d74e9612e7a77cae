"""The FLOPs that the model really spends."""

from typing import ClassVar

from vispco.cost.layer_flops import LayerFlops, exact_layer_flops
from vispco.cost.polynomial import PolynomialCost


class Exact(PolynomialCost):
    """Every matrix multiplication of a decoder layer, two FLOPs a multiply-add, as torch's FlopCounterMode counts them.

    Knows grouped-query attention and gated feed-forward networks; for models whose layers are not all alike (experts, latent
    attention, shared keys, linear attention) the matrices of each layer are counted. Sliding-window layers cost N^2 like the others: their
    mask is dense, and dense attention multiplies what it then masks.
    """

    name: ClassVar[str] = "exact"

    @property
    def sizes(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
        layers = self.dimensions.layers
        if layers is None:
            return super().sizes
        return tuple(size.mixer for size in layers), tuple(s.pairs for s in layers), tuple(s.network for s in layers)

    @property
    def layer_flops(self) -> LayerFlops:
        size = self.dimensions
        return exact_layer_flops(size.hidden, size.heads, size.kv_heads, size.head_dim, size.ffn, gated=size.gated)
