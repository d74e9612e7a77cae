"""FLOPs that torch counts in a real run: the oracle of every price, and the account of what no formula describes."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode


@contextmanager
def counted_flops() -> Iterator[FlopCounterMode]:
    """Count FLOPs inside the block (`.get_total_flops()`), attention included.

    Attention runs as plain products: the counter does not see the fused kernel of a CPU.
    """
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        yield counter
