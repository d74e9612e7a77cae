"""What scoring itself costs. It is kept apart from the schedule's FLOPs, which a budget speaks of, and told beside it."""

from collections.abc import Sequence

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer


def scoring_flops(
    scorer: Scorer, dimensions: Dimensions, counts: Sequence[int], num_text: int, num_instruction: int
) -> int:
    """FLOPs of all scoring in one prefill of one sample.

    counts: visual tokens that enter each layer; num_instruction: text rows after the first visual token. A row costs
    one product of the query with every key.
    """
    total = 0
    drops = [i for i in range(1, len(counts)) if counts[i] < counts[i - 1]]
    for layer in drops:
        live = counts[layer - 1]
        rows = scorer.attention_rows(num_instruction, live)
        total += rows * (num_text + live) * 2 * dimensions.heads * dimensions.head_dim
    return total + (scorer.setup_flops(num_instruction, counts[0], dimensions.hidden) if drops else 0)
