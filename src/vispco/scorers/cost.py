"""What scoring itself costs. It is kept apart from the schedule's FLOPs, which a budget is about, and reported beside them."""

from collections.abc import Sequence

from vispco.cost.dimensions import Dimensions
from vispco.scorers.chain import Chain, ChainLike


def scoring_flops(
    chain: ChainLike,
    dimensions: Dimensions,
    counts: Sequence[int],
    num_text: int,
    num_instruction: int,
    num_visual: int | None = None,
) -> int:
    """FLOPs of all scoring in one prefill of one sample.

    counts: visual tokens that enter each layer; num_instruction: text rows after the first visual token; num_visual: tokens
    before any left, by default what enters layer 0. A row costs one product of the query with every key.
    """
    found = Chain.of(chain)
    original = counts[0] if num_visual is None else num_visual
    before = [original, *counts]
    scorers = {layer: scorer for layer in range(len(counts)) if (scorer := found.scorer_at(layer)) is not None}
    choices = {i: scorer for i, scorer in scorers.items() if counts[i] < before[i] or scorer.acts_at(i)}
    total = 0
    for layer, scorer in choices.items():
        live, tokens = before[layer], num_text + before[layer]
        width = dimensions.heads * dimensions.head_dim
        if layer or scorer.needs_entering:
            total += scorer.attention_rows(num_instruction, live) * tokens * 2 * width
        if scorer.needs_entering:  # queries, keys and values of the layer are computed once for the choice
            total += tokens * dimensions.hidden * (2 * width + 4 * dimensions.kv_heads * dimensions.head_dim)
        total += scorer.choice_flops(tokens, original, dimensions)
    busy = {id(scorer): scorer for scorer in choices.values()}
    return total + sum(s.setup_flops(num_instruction, original, dimensions.hidden) for s in busy.values())
