"""FLOPs of one decoder layer by its sizes.

Each gives (attention per token, attention per pair of tokens, feed-forward network per token).
"""

LayerFlops = tuple[int, int, int]


def exact_layer_flops(
    hidden: int, heads: int, kv_heads: int, head_dim: int, ffn: int, *, gated: bool = True
) -> LayerFlops:
    """Every matrix multiplication, two FLOPs a multiply-add: grouped-query attention, and an FFN with or without a gate."""
    projections = 4 * hidden * heads * head_dim + 4 * hidden * kv_heads * head_dim
    return projections, 4 * heads * head_dim, (6 if gated else 4) * hidden * ffn


def paper_layer_flops(hidden: int) -> LayerFlops:
    """24 N D^2 + 4 N^2 D (Section 3.1 and Appendix A): plain attention, and a plain FFN with D_ffn = 4 D."""
    return 8 * hidden**2, 4 * hidden, 16 * hidden**2
