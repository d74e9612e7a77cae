"""The FLOPs of the paper's formula."""

from typing import ClassVar

from vispco.cost.layer_flops import LayerFlops, paper_layer_flops
from vispco.cost.polynomial import PolynomialCost


class Paper(PolynomialCost):
    """24 N D^2 + 4 N^2 D per layer (Section 3.1 and Appendix A): plain attention, and a plain FFN with D_ffn = 4 D."""

    name: ClassVar[str] = "paper"

    @property
    def layer_flops(self) -> LayerFlops:
        return paper_layer_flops(self.dimensions.hidden)
