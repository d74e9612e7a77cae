"""AIM, inside the language model: where attention ends up when tokens pass it on.

Zhong et al., "AIM: Adaptive Inference of Multi-Modal LLMs via Token Merging and Pruning" (ICCV 2025). PageRank on the attention
map of the layer before: softmax of its logits at temperature 0.1, five steps from a uniform start over all tokens, head by
head; then the root mean square over heads. One head's map is in memory at a time.
Faithful: score and place. The released code only masks, and starts from padding too; here tokens leave, and a sample in a
batch is scored as it is alone. Merging before the language model is a scorer of its own.
"""

from torch import Tensor

from vispco.cost.dimensions import Dimensions
from vispco.scorers.base import Scorer, register
from vispco.scorers.context import ScoringContext


@register
class AIM(Scorer):
    """PageRank of the attention map."""

    name = "aim"

    def __init__(self, steps: int = 5, temperature: float = 0.1) -> None:
        self.steps, self.temperature = steps, temperature

    def score(self, context: ScoringContext) -> Tensor:
        return context.attention_flow(self.steps, self.temperature)

    def choice_flops(self, num_tokens: int, num_visual: int, dimensions: Dimensions) -> int:  # noqa: ARG002
        return dimensions.heads * 2 * num_tokens**2 * (dimensions.head_dim + self.steps)
